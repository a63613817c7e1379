#include "conv2d/families/channels_last_wgrad/launch.cuh"

namespace haloconv::sm90::channels_last_wgrad {

template void launch_instance<__half>(const Tile&, const PatchMaps&, const RowsArguments&, int64_t,
                                      cudaStream_t);

}  // namespace haloconv::sm90::channels_last_wgrad
