#include "conv2d/families/depthwise/launch_lines.cuh"

namespace haloconv::depthwise {

template void launch_lines<float>(const Lowered&, const float*, const float*, const float*,
                                  const Fusion&, float*, cudaStream_t);
template void launch_lines_wgrad<float>(const Conv2dProblem&, const Plan&, const Lowered&,
                                        const float*, const float*, float*, float*, void*,
                                        cudaStream_t);

}  // namespace haloconv::depthwise
