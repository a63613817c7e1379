#include "conv2d/families/generic/launch_gather.cuh"

template void haloconv::generic::launch_gather<float>(const Plan&, const Lowered&, const float*,
                                                      const float*, const float*, const Fusion&,
                                                      float*, void*, cudaStream_t);
