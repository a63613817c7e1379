#include "conv2d/families/implicit_gemm/windows/launch.cuh"

namespace haloconv::implicit_gemm {

static_assert(kTiles[7].pixels == 512 && kTiles[7].channels == 16);
template void launch_windows<7>(DataType, Access, const Arguments&, cudaStream_t);

}  // namespace haloconv::implicit_gemm
