#include "conv2d/families/channels_last/rows_launch.cuh"

namespace haloconv::sm90::channels_last {

template void launch_rows<Tile{128, 256, 32, 4}>(const RowArguments&, const TensorMaps&, int,
                                                 CUstream_st*);

}  // namespace haloconv::sm90::channels_last
