#include "conv2d/families/implicit_gemm/windows_wgrad/launch.cuh"

namespace haloconv::windows_wgrad {

static_assert(kTiles[3].rows == 128 && kTiles[3].columns == 160);
template void launch_tile<3>(DataType, const Arguments&, cudaStream_t);

}  // namespace haloconv::windows_wgrad
