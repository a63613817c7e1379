#include "conv2d/families/depthwise/launch_images.cuh"

namespace haloconv::depthwise {

template void launch_images_wgrad(const Conv2dProblem&, const Plan&, const Lowered&,
                                  const WgradTensors<__nv_bfloat16>&, cudaStream_t);

}  // namespace haloconv::depthwise
