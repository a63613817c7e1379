#include "conv2d/families/first_layers/dgrad_launch.cuh"

namespace haloconv::sm90::first_layers {

template void launch_dgrad<2, 16, false, 2>(DataType, const CUtensorMap&, const DgradArguments&,
                                            int64_t, int64_t, cudaStream_t);

}  // namespace haloconv::sm90::first_layers
