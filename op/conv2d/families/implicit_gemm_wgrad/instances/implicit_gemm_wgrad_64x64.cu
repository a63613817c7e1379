#include "conv2d/families/implicit_gemm_wgrad/launch.cuh"

namespace haloconv::implicit_gemm_wgrad {

static_assert(kTiles[2].rows == 64 && kTiles[2].columns == 64);
template void launch_tile<2>(DataType, Access, const Arguments&, void*, void*, cudaStream_t);

}  // namespace haloconv::implicit_gemm_wgrad
