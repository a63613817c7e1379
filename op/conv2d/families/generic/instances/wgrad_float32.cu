#include "conv2d/families/generic/launch_wgrad.cuh"

template void haloconv::generic::launch_wgrad<float>(const Plan&, const Lowered&, const float*,
                                                     const float*, float*, float*, void*,
                                                     cudaStream_t);
