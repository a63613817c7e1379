#include "conv2d/families/channels_last/strips_launch.cuh"

namespace haloconv::sm90::channels_last {

template void launch_strips<StripTile{5, {128, 16, 32, 4}}>(const Instance&, const StripLaunch&,
                                                            const WindowMaps&, cudaStream_t);

}  // namespace haloconv::sm90::channels_last
