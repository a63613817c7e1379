#include "conv2d/sm90/wgrad/launch.cuh"

namespace haloconv::sm90::wgrad {

void launch_4x64(const Arguments& args, const RowMaps& maps, cudaStream_t stream) {
  launch_kernel<4, 64>(args, maps, stream);
}

}  // namespace haloconv::sm90::wgrad
