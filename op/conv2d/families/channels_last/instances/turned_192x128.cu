#include "conv2d/families/channels_last/turned_launch.cuh"

namespace haloconv::sm90::channels_last {

template void launch_turned<Tile{192, 128, 32, 4}>(bool, const Arguments&, const TensorMaps&, int,
                                                   CUstream_st*);

}  // namespace haloconv::sm90::channels_last
