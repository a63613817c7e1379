#include "conv2d/families/depthwise/launch_lines.cuh"

namespace haloconv::depthwise {

template void launch_lines<__nv_bfloat16>(const Lowered&, const __nv_bfloat16*,
                                          const __nv_bfloat16*, const __nv_bfloat16*, const Fusion&,
                                          __nv_bfloat16*, cudaStream_t);
template void launch_lines_wgrad<__nv_bfloat16>(const Conv2dProblem&, const Plan&, const Lowered&,
                                                const __nv_bfloat16*, const __nv_bfloat16*,
                                                __nv_bfloat16*, __nv_bfloat16*, void*,
                                                cudaStream_t);

}  // namespace haloconv::depthwise
