#include "conv2d/families/depthwise/launch_channels.cuh"

template void haloconv::generic::launch_depthwise_nhwc<float>(const Conv2dProblem&, Direction,
                                                              const float*, const float*,
                                                              const float*, const Fusion&, float*,
                                                              cudaStream_t);
template void haloconv::generic::launch_depthwise_nhwc_wgrad<float>(const Conv2dProblem&,
                                                                    const Conv2dPlan&, const float*,
                                                                    const float*, void*,
                                                                    cudaStream_t);
