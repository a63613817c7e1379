#include "conv2d/sm90/gather/launch.cuh"

namespace haloconv::sm90 {

void launch_2x64_fused(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  launch_fused_instance<2, 64>(args, blocks, stream);
}

}  // namespace haloconv::sm90
