#include "conv2d/families/depthwise/launch_lines.cuh"

namespace haloconv::depthwise {

template void launch_lines(const Conv2dProblem&, const Lowered&, const GatherTensors<__half>&,
                           cudaStream_t);
template void launch_lines_wgrad(const Conv2dProblem&, const Plan&, const Lowered&,
                                 const WgradTensors<__half>&, cudaStream_t);

}  // namespace haloconv::depthwise
