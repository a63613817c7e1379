#include "conv2d/families/generic/launch_wgrad.cuh"

template void haloconv::generic::launch_wgrad<double>(const Plan&, const Lowered&, const double*,
                                                      const double*, double*, double*, void*,
                                                      cudaStream_t);
