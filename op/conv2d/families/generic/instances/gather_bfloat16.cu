#include "conv2d/families/generic/launch_gather.cuh"

template void haloconv::generic::launch_gather<__nv_bfloat16>(const Plan&, const Lowered&,
                                                              const __nv_bfloat16*,
                                                              const __nv_bfloat16*,
                                                              const __nv_bfloat16*, const Fusion&,
                                                              __nv_bfloat16*, void*, cudaStream_t);
