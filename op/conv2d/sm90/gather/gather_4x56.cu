#include "conv2d/sm90/gather/launch.cuh"

namespace haloconv::sm90 {

void launch_4x56(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  launch_instance<4, 56>(args, blocks, stream);
}

}  // namespace haloconv::sm90
