#include "conv2d/sm90/gather/launch.cuh"

namespace haloconv::sm90 {

void launch_2x104_fused(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  launch_fused_instance<2, 104>(args, blocks, stream);
}

}  // namespace haloconv::sm90
