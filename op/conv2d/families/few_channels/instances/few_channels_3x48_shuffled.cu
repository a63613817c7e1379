#include "conv2d/families/few_channels/launch.cuh"

namespace haloconv::few_channels {

template void launch_instance<float, 3, 48, true>(const Arguments&, unsigned, cudaStream_t);

}  // namespace haloconv::few_channels
