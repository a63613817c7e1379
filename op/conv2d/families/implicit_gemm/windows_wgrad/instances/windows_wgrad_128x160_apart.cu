#include "conv2d/families/implicit_gemm/windows_wgrad/launch.cuh"

namespace haloconv::windows_wgrad {

static_assert(kTiles[6].rows == 128 && kTiles[6].columns == 160 && kTiles[6].copies_apart);
template void launch_tile<6>(DataType, const Arguments&, void*, void*, cudaStream_t);

}  // namespace haloconv::windows_wgrad
