#include "conv2d/families/generic/launch_wgrad.cuh"

template void haloconv::generic::launch_wgrad<__nv_bfloat16>(const Plan&, const Lowered&,
                                                             const __nv_bfloat16*,
                                                             const __nv_bfloat16*, __nv_bfloat16*,
                                                             __nv_bfloat16*, void*, cudaStream_t);
