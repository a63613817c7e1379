#include "conv2d/families/generic/launch_wgrad.cuh"

template void haloconv::generic::launch_wgrad<__half>(const Plan&, const Lowered&, const __half*,
                                                      const __half*, __half*, __half*, void*,
                                                      cudaStream_t);
