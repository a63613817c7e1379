#include "conv2d/families/depthwise/launch_bands.cuh"

namespace haloconv::depthwise {

template void launch_bands(const Conv2dProblem&, const Lowered&,
                           const GatherTensors<__nv_bfloat16>&, cudaStream_t);

}  // namespace haloconv::depthwise
