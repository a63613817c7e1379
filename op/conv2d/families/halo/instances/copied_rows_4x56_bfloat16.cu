#include "conv2d/families/halo/copied_launch.cuh"

namespace haloconv::halo {

template void launch_copied_rows<__nv_bfloat16, 56>(const Arguments&, const CUtensorMap&, unsigned,
                                                    cudaStream_t);

}  // namespace haloconv::halo
