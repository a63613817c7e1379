#include "conv2d/families/channels_last/alternating_launch.cuh"

namespace haloconv::sm90::channels_last {

template void launch_alternating<Tile{128, 128, 64, 2, true}>(const Instance&, const Arguments&,
                                                              const TensorMaps&, bool, int,
                                                              cudaStream_t);

}  // namespace haloconv::sm90::channels_last
