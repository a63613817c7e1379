#include "conv2d/families/implicit_gemm/launch.cuh"

namespace haloconv::implicit_gemm {

static_assert(kTiles[0].pixels == 256 && kTiles[0].channels == 128);
template void launch_tile<0>(DataType, Access, const Arguments&, cudaStream_t);

}  // namespace haloconv::implicit_gemm
