#include "conv2d/families/generic/launch_fused_gather.cuh"

template void haloconv::generic::launch_fused_gather<float>(const GatherArguments<float>&,
                                                            const Conv2dPlan&, cudaStream_t);
