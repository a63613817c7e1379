#include "conv2d/families/depthwise/launch_bands.cuh"

namespace haloconv::depthwise {

template void launch_bands<__nv_bfloat16>(const Lowered&, const __nv_bfloat16*,
                                          const __nv_bfloat16*, const __nv_bfloat16*, const Fusion&,
                                          __nv_bfloat16*, cudaStream_t);

}  // namespace haloconv::depthwise
