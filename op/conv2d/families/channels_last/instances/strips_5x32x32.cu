#include "conv2d/families/channels_last/strips_launch.cuh"

namespace haloconv::sm90::channels_last {

template void launch_strips<StripTile{5, {128, 32, 32}}>(const Instance&, const StripLaunch&,
                                                         const WindowMaps&, cudaStream_t);

}  // namespace haloconv::sm90::channels_last
