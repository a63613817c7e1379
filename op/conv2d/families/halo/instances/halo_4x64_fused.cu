#include "conv2d/families/halo/launch.cuh"

namespace haloconv::halo {

template void launch_fused_instance<4, 64>(const Arguments&, unsigned, cudaStream_t);

}  // namespace haloconv::halo
