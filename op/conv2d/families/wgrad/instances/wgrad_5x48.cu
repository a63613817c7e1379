#include "conv2d/families/wgrad/launch.cuh"

namespace haloconv::wgrad {

template void launch_instance<float, 5, 48>(const Arguments&, const RowMaps&, cudaStream_t);

}  // namespace haloconv::wgrad
