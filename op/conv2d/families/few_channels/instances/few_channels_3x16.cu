#include "conv2d/families/few_channels/launch.cuh"

namespace haloconv::sm90::scatter {

void launch_3x16(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  launch_instance<3, 16>(args, blocks, stream);
}

}  // namespace haloconv::sm90::scatter
