#include "conv2d/families/generic/launch_gather.cuh"

template void haloconv::generic::launch_gather<__half>(const Plan&, const Lowered&, const __half*,
                                                       const __half*, const __half*, const Fusion&,
                                                       __half*, void*, cudaStream_t);
