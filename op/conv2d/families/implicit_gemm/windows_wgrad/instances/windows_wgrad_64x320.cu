#include "conv2d/families/implicit_gemm/windows_wgrad/launch.cuh"

namespace haloconv::windows_wgrad {

static_assert(kTiles[3].rows == 64 && kTiles[3].columns == 320);
template void launch_tile<3>(DataType, const Arguments&, void*, void*, cudaStream_t);

}  // namespace haloconv::windows_wgrad
