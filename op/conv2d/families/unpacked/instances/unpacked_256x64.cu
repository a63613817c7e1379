#include "conv2d/families/unpacked/launch.cuh"

namespace haloconv::unpacked {

template void launch_tile<Tile{256, 64}>(const Arguments&, const CUtensorMap&, const CUtensorMap&,
                                         uint32_t, int, cudaStream_t);

}  // namespace haloconv::unpacked
