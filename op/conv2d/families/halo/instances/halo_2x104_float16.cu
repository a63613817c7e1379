#include "conv2d/families/halo/launch.cuh"

namespace haloconv::halo {

template void launch_instance<__half, 2, 104>(const Arguments&, unsigned, cudaStream_t);

}  // namespace haloconv::halo
