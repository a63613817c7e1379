#include "conv2d/families/depthwise/launch_lines.cuh"

namespace haloconv::depthwise {

template void launch_lines(const Conv2dProblem&, const Lowered&,
                           const GatherTensors<__nv_bfloat16>&, cudaStream_t);
template void launch_lines_wgrad(const Conv2dProblem&, const Plan&, const Lowered&,
                                 const WgradTensors<__nv_bfloat16>&, cudaStream_t);

}  // namespace haloconv::depthwise
