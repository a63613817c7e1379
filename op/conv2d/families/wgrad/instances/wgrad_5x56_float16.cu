#include "conv2d/families/wgrad/launch.cuh"

namespace haloconv::wgrad {

template void launch_instance<__half, 5, 56>(const Arguments&, const RowMaps&, cudaStream_t);

}  // namespace haloconv::wgrad
