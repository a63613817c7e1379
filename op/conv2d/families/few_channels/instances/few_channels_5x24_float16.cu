#include "conv2d/families/few_channels/launch.cuh"

namespace haloconv::few_channels {

template void launch_instance<__half, 5, 24, false>(const Arguments&, unsigned, cudaStream_t);

}  // namespace haloconv::few_channels
