#include "conv2d/families/depthwise/launch_channels.cuh"

template void haloconv::generic::launch_depthwise_nhwc<__half>(const Conv2dProblem&, Direction,
                                                               const __half*, const __half*,
                                                               const __half*, const Fusion&,
                                                               __half*, cudaStream_t);
template void haloconv::generic::launch_depthwise_nhwc_wgrad<__half>(const Conv2dProblem&,
                                                                     const Conv2dPlan&,
                                                                     const __half*, const __half*,
                                                                     void*, cudaStream_t);
