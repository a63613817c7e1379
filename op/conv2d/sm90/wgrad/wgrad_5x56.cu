#include "conv2d/sm90/wgrad/launch.cuh"

namespace haloconv::sm90::wgrad {

void launch_5x56(const Arguments& args, cudaStream_t stream) { launch_kernel<5, 56>(args, stream); }

}  // namespace haloconv::sm90::wgrad
