#include "conv2d/families/channels_last/launch.cuh"

namespace haloconv::sm90::channels_last {

template void launch_tile<Tile{192, 128, 64}>(const Instance&, const Arguments&, const TensorMaps&,
                                              int, cudaStream_t);

}  // namespace haloconv::sm90::channels_last
