#include "conv2d/families/few_channels/launch.cuh"

namespace haloconv::few_channels {

void launch_3x48(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  launch_instance<3, 48>(args, blocks, stream);
}

}  // namespace haloconv::few_channels
