#include "conv2d/families/first_layers/plain_wgrad_launch.cuh"

namespace haloconv::sm90::first_layers {

template void launch_plain_wgrad<2>(DataType, const CUtensorMap&, const CUtensorMap&,
                                    const PlainWgradArguments&, int64_t, cudaStream_t);

}  // namespace haloconv::sm90::first_layers
