#include "conv2d/sm90/wgrad/launch.cuh"

namespace haloconv::sm90::wgrad {

void launch_5x56(const Arguments& args, const RowMaps& maps, cudaStream_t stream) {
  launch_kernel<5, 56>(args, maps, stream);
}

}  // namespace haloconv::sm90::wgrad
