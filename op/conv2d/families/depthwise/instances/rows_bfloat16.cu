#include "conv2d/families/depthwise/launch_rows.cuh"

namespace haloconv::depthwise {

template void launch_rows(const Conv2dProblem&, const Lowered&, const GatherTensors<__nv_bfloat16>&,
                          cudaStream_t);
template void launch_rows_wgrad(const Conv2dProblem&, const Plan&, const Lowered&,
                                const WgradTensors<__nv_bfloat16>&, cudaStream_t);

}  // namespace haloconv::depthwise
