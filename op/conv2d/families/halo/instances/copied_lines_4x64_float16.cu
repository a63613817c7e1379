#include "conv2d/families/halo/copied_launch.cuh"

namespace haloconv::halo {

template void launch_copied_lines<__half>(const Arguments&, const CopiedArguments&, unsigned,
                                          cudaStream_t);

}  // namespace haloconv::halo
