#include "conv2d/families/channels_last/alternating_windows_launch.cuh"

namespace haloconv::sm90::channels_last {

template void launch_alternating_windows<Tile{256, 64, 64, 2, true}>(const Instance&,
                                                                     const WindowLaunch&,
                                                                     const WindowMaps&, int,
                                                                     cudaStream_t);

}  // namespace haloconv::sm90::channels_last
