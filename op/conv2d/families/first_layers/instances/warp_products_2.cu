#include "conv2d/families/first_layers/warp_products_launch.cuh"

namespace haloconv::sm90::first_layers {

template void launch_warp_products<2>(const CUtensorMap&, const CUtensorMap&,
                                      const WarpProductsArguments&, int64_t, cudaStream_t);

}  // namespace haloconv::sm90::first_layers
