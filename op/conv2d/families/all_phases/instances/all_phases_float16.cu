#include "conv2d/families/all_phases/launch.cuh"

namespace haloconv::all_phases {

template void launch_instance<__half>(const Tile&, const Arguments&, int, cudaStream_t);

}  // namespace haloconv::all_phases
