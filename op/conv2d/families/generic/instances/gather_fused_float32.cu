#include "conv2d/families/generic/launch_fused_gather.cuh"

template void haloconv::generic::launch_fused_gather<float>(const GatherArguments<float>&,
                                                            const Plan&, cudaStream_t);
