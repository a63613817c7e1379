#include "conv2d/sm90/wgrad/launch.cuh"

namespace haloconv::sm90::wgrad {

void launch_3x48(const Arguments& args, const RowMaps& maps, cudaStream_t stream) {
  launch_kernel<3, 48>(args, maps, stream);
}

}  // namespace haloconv::sm90::wgrad
