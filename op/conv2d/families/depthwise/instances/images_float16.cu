#include "conv2d/families/depthwise/launch_images.cuh"

namespace haloconv::depthwise {

template void launch_images_wgrad(const Conv2dProblem&, const Plan&, const Lowered&,
                                  const WgradTensors<__half>&, cudaStream_t);

}  // namespace haloconv::depthwise
