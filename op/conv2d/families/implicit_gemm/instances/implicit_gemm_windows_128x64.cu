#include "conv2d/families/implicit_gemm/windows/launch.cuh"

namespace haloconv::implicit_gemm {

static_assert(kTiles[3].pixels == 128 && kTiles[3].channels == 64);
template void launch_windows<3>(DataType, Access, const Arguments&, cudaStream_t);

}  // namespace haloconv::implicit_gemm
