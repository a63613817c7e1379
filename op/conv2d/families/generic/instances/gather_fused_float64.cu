#include "conv2d/families/generic/launch_fused_gather.cuh"

template void haloconv::generic::launch_fused_gather<double>(const GatherArguments<double>&,
                                                             const Plan&, cudaStream_t);
