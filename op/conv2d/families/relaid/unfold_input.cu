#include "conv2d/families/relaid/unfold_input.h"

#include "conv2d/device/unfold.cuh"

namespace haloconv::relaid {

void launch_unfold(const Unfold& unfold, const void* input, void* copy, cudaStream_t stream) {
  enqueue_unfold(unfold, input, copy, stream);
}

}  // namespace haloconv::relaid
