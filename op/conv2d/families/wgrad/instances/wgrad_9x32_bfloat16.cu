#include "conv2d/families/wgrad/launch.cuh"

namespace haloconv::wgrad {

template void launch_instance<__nv_bfloat16, 9, 32>(const Arguments&, const RowMaps&, cudaStream_t);

}  // namespace haloconv::wgrad
