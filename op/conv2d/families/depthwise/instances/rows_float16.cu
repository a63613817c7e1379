#include "conv2d/families/depthwise/launch_rows.cuh"

template void haloconv::generic::launch_depthwise<__half>(const Conv2dProblem&, Direction,
                                                          const __half*, const __half*,
                                                          const __half*, const Fusion&, __half*,
                                                          cudaStream_t);
template void haloconv::generic::launch_depthwise_wgrad<__half>(const Conv2dProblem&,
                                                                const Conv2dPlan&, const __half*,
                                                                const __half*, void*, cudaStream_t);
