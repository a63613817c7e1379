#include "conv2d/families/depthwise/launch_bands.cuh"

namespace haloconv::depthwise {

template void launch_bands<__half>(const Lowered&, const __half*, const __half*, const __half*,
                                   const Fusion&, __half*, cudaStream_t);

}  // namespace haloconv::depthwise
