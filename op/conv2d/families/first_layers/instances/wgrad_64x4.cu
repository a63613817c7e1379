#include "conv2d/families/first_layers/wgrad_launch.cuh"

namespace haloconv::sm90::first_layers {

template void launch_wgrad<64, 4, false>(DataType, const CUtensorMap&, const WgradArguments&,
                                         int64_t, cudaStream_t);

}  // namespace haloconv::sm90::first_layers
