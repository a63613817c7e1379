#include "conv2d/families/few_channels/launch.cuh"

namespace haloconv::few_channels {

void launch_5x24(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  launch_instance<5, 24>(args, blocks, stream);
}

}  // namespace haloconv::few_channels
