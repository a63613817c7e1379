#include "conv2d/families/depthwise/launch_channels.cuh"

template void haloconv::generic::launch_depthwise_nhwc<__nv_bfloat16>(
    const Conv2dProblem&, Direction, const __nv_bfloat16*, const __nv_bfloat16*,
    const __nv_bfloat16*, const Fusion&, __nv_bfloat16*, cudaStream_t);
template void haloconv::generic::launch_depthwise_nhwc_wgrad<__nv_bfloat16>(const Conv2dProblem&,
                                                                            const Conv2dPlan&,
                                                                            const __nv_bfloat16*,
                                                                            const __nv_bfloat16*,
                                                                            void*, cudaStream_t);
