#include "conv2d/families/row_strips/launch.cuh"

namespace haloconv::row_strips {

template void launch_instance<__half, 1>(const Arguments&, unsigned, cudaStream_t);

}  // namespace haloconv::row_strips
