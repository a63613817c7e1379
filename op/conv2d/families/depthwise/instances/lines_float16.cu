#include "conv2d/families/depthwise/launch_lines.cuh"

namespace haloconv::depthwise {

template void launch_lines<__half>(const Lowered&, const __half*, const __half*, const __half*,
                                   const Fusion&, __half*, cudaStream_t);
template void launch_lines_wgrad<__half>(const Conv2dProblem&, const Plan&, const Lowered&,
                                         const __half*, const __half*, __half*, __half*, void*,
                                         cudaStream_t);

}  // namespace haloconv::depthwise
