#include "conv2d/families/depthwise/launch_bands.cuh"

namespace haloconv::depthwise {

template void launch_bands(const Conv2dProblem&, const Lowered&, const GatherTensors<__half>&,
                           cudaStream_t);

}  // namespace haloconv::depthwise
