#include "conv2d/families/implicit_gemm/windows_wgrad/launch.cuh"

namespace haloconv::windows_wgrad {

static_assert(kTiles[4].rows == 64 && kTiles[4].columns == 448);
template void launch_tile<4>(DataType, const Arguments&, void*, void*, cudaStream_t);

}  // namespace haloconv::windows_wgrad
