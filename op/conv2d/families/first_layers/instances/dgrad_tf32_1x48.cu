#include "conv2d/families/first_layers/dgrad_launch.cuh"

namespace haloconv::sm90::first_layers {

template void launch_dgrad_tf32<1, 48>(const CUtensorMap&, const DgradArguments&, int64_t, int64_t,
                                       cudaStream_t);

}  // namespace haloconv::sm90::first_layers
