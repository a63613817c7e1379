#include "conv2d/families/implicit_gemm/windows_wgrad/launch.cuh"

namespace haloconv::windows_wgrad {

static_assert(kTiles[0].rows == 128 && kTiles[0].columns == 256);
template void launch_tile<0>(DataType, const Arguments&, cudaStream_t);

}  // namespace haloconv::windows_wgrad
