#include "conv2d/families/generic/launch_fused_gather.cuh"

template void haloconv::generic::launch_fused_gather<__nv_bfloat16>(
    const GatherArguments<__nv_bfloat16>&, const Plan&, cudaStream_t);
