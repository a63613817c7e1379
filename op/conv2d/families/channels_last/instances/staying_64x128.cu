#include "conv2d/families/channels_last/staying_launch.cuh"

namespace haloconv::sm90::channels_last {

template void launch_staying<Tile{64, 128, 64, 2, true}>(const Instance&, const StayingLaunch&,
                                                         const TensorMaps&, CUstream_st*);

}  // namespace haloconv::sm90::channels_last
