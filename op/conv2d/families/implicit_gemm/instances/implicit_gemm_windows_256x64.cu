#include "conv2d/families/implicit_gemm/windows/launch.cuh"

namespace haloconv::implicit_gemm {

static_assert(kTiles[2].pixels == 256 && kTiles[2].channels == 64);
template void launch_windows<2>(DataType, Access, const Arguments&, cudaStream_t);

}  // namespace haloconv::implicit_gemm
