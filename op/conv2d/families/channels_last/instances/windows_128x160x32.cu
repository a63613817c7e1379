#include "conv2d/families/channels_last/windows_launch.cuh"

namespace haloconv::sm90::channels_last {

template void launch_windows<Tile{128, 160, 32}>(const Instance&, const WindowLaunch&,
                                                 const WindowMaps&, int, cudaStream_t);

}  // namespace haloconv::sm90::channels_last
