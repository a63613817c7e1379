#include "conv2d/families/implicit_gemm_wgrad/launch.cuh"

namespace haloconv::implicit_gemm_wgrad {

static_assert(kTiles[0].rows == 128 && kTiles[0].columns == 128);
template void launch_tile<0>(DataType, Access, const Arguments&, void*, void*, cudaStream_t);

}  // namespace haloconv::implicit_gemm_wgrad
