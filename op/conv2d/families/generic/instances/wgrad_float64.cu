#include "conv2d/families/generic/launch_wgrad.cuh"

template void haloconv::generic::launch_wgrad<double>(const Conv2dProblem&, const Conv2dPlan&,
                                                      const double*, const double*, double*,
                                                      double*, void*, cudaStream_t);
