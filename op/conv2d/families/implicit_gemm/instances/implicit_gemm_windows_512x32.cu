#include "conv2d/families/implicit_gemm/windows/launch.cuh"

namespace haloconv::implicit_gemm {

static_assert(kTiles[6].pixels == 512 && kTiles[6].channels == 32);
template void launch_windows<6>(DataType, Access, const Arguments&, cudaStream_t);

}  // namespace haloconv::implicit_gemm
