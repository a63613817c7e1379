#include "conv2d/families/implicit_gemm/windows_wgrad/launch.cuh"

namespace haloconv::windows_wgrad {

static_assert(kTiles[1].rows == 64 && kTiles[1].columns == 512);
template void launch_tile<1>(DataType, const Arguments&, cudaStream_t);

}  // namespace haloconv::windows_wgrad
