#include "conv2d/families/depthwise_direct/launch_vectors.cuh"

namespace haloconv::depthwise_direct {

template void launch_vectors(const Plan&, const KernelArguments<__half>&, cudaStream_t);

}  // namespace haloconv::depthwise_direct
