#include "conv2d/families/halo/launch.cuh"

namespace haloconv::halo {

template void launch_instance<__nv_bfloat16, 2, 56>(const Arguments&, unsigned, cudaStream_t);

}  // namespace haloconv::halo
