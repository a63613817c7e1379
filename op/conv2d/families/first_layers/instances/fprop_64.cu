#include "conv2d/families/first_layers/fprop_launch.cuh"

namespace haloconv::sm90::first_layers {

template void launch_fprop<64, false>(const FpropInstance&, const FpropArguments&, cudaStream_t);

}  // namespace haloconv::sm90::first_layers
