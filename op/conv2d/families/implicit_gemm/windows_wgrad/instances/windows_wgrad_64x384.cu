#include "conv2d/families/implicit_gemm/windows_wgrad/launch.cuh"

namespace haloconv::windows_wgrad {

static_assert(kTiles[2].rows == 64 && kTiles[2].columns == 384);
template void launch_tile<2>(DataType, const Arguments&, cudaStream_t);

}  // namespace haloconv::windows_wgrad
