#include "conv2d/families/halo/copied_launch.cuh"

namespace haloconv::halo {

template void launch_flat_lines<__nv_bfloat16>(const Arguments&, const FlatArguments&, unsigned,
                                               cudaStream_t);

}  // namespace haloconv::halo
