#include "conv2d/families/implicit_gemm/windows_wgrad/launch.cuh"

namespace haloconv::windows_wgrad {

static_assert(kTiles[5].rows == 64 && kTiles[5].columns == 288);
template void launch_tile<5>(DataType, const Arguments&, cudaStream_t);

}  // namespace haloconv::windows_wgrad
