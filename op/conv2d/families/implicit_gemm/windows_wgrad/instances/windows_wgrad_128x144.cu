#include "conv2d/families/implicit_gemm/windows_wgrad/launch.cuh"

namespace haloconv::windows_wgrad {

static_assert(kTiles[4].rows == 128 && kTiles[4].columns == 144);
template void launch_tile<4>(DataType, const Arguments&, cudaStream_t);

}  // namespace haloconv::windows_wgrad
