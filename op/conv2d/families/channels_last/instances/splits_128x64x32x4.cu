#include "conv2d/families/channels_last/splits_launch.cuh"

namespace haloconv::sm90::channels_last {

template void launch_splits<Tile{128, 64, 32, 4}>(const SplitArguments&, const TensorMaps&,
                                                  DataType, int, CUstream_st*);

}  // namespace haloconv::sm90::channels_last
