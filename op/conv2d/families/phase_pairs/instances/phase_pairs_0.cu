#include "conv2d/families/phase_pairs/launch.cuh"

namespace haloconv::phase_pairs {

template void launch_instance<0>(const Tile&, const Arguments&, const CUtensorMap&, int,
                                 cudaStream_t);

}  // namespace haloconv::phase_pairs
