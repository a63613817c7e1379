#include "conv2d/families/generic/launch_gather.cuh"

template void haloconv::generic::launch_gather<double>(const Plan&, const Lowered&, const double*,
                                                       const double*, const double*, const Fusion&,
                                                       double*, void*, cudaStream_t);
