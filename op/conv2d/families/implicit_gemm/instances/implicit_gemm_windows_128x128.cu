#include "conv2d/families/implicit_gemm/windows/launch.cuh"

namespace haloconv::implicit_gemm {

static_assert(kTiles[1].pixels == 128 && kTiles[1].channels == 128);
template void launch_windows<1>(DataType, Access, const Arguments&, cudaStream_t);

}  // namespace haloconv::implicit_gemm
