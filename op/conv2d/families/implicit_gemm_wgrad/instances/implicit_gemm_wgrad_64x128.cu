#include "conv2d/families/implicit_gemm_wgrad/launch.cuh"

namespace haloconv::implicit_gemm_wgrad {

static_assert(kTiles[1].rows == 64 && kTiles[1].columns == 128);
template void launch_tile<1>(DataType, Access, const Arguments&, void*, void*, cudaStream_t);

}  // namespace haloconv::implicit_gemm_wgrad
