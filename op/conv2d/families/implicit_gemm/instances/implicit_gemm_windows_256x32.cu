#include "conv2d/families/implicit_gemm/windows/launch.cuh"

namespace haloconv::implicit_gemm {

static_assert(kTiles[5].pixels == 256 && kTiles[5].channels == 32);
template void launch_windows<5>(DataType, Access, const Arguments&, cudaStream_t);

}  // namespace haloconv::implicit_gemm
