#include "conv2d/families/implicit_gemm/launch.cuh"

namespace haloconv::implicit_gemm {

static_assert(kTiles[4].pixels == 64 && kTiles[4].channels == 64);
template void launch_tile<4>(DataType, Access, const Arguments&, cudaStream_t);

}  // namespace haloconv::implicit_gemm
