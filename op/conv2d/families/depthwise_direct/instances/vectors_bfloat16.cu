#include "conv2d/families/depthwise_direct/launch_vectors.cuh"

namespace haloconv::depthwise_direct {

template void launch_vectors(const Plan&, const KernelArguments<__nv_bfloat16>&, cudaStream_t);

}  // namespace haloconv::depthwise_direct
