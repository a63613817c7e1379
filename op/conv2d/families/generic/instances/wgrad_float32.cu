#include "conv2d/families/generic/launch_wgrad.cuh"

template void haloconv::generic::launch_wgrad<float>(const Conv2dProblem&, const Conv2dPlan&,
                                                     const float*, const float*, float*, float*,
                                                     void*, cudaStream_t);
