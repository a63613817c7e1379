#include "conv2d/families/generic/launch_fused_gather.cuh"

template void haloconv::generic::launch_fused_gather<__half>(const GatherArguments<__half>&,
                                                             const Plan&, cudaStream_t);
