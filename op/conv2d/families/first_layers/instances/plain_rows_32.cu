#include "conv2d/families/first_layers/plain_rows_launch.cuh"

namespace haloconv::sm90::first_layers {

template void launch_plain_rows<32>(const FpropInstance&, const CUtensorMap&,
                                    const PlainRowsArguments&, cudaStream_t);

}  // namespace haloconv::sm90::first_layers
