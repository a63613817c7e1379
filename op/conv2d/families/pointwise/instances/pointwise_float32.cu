#include "conv2d/families/pointwise/launch.cuh"

namespace haloconv::pointwise {

template void launch_wgrad_instance<float>(const WgradPlan&, const WgradArguments&, unsigned,
                                           cudaStream_t);
template void launch_paired_instance<float>(const WgradPlan&, const PairedArguments&, cudaStream_t);

}  // namespace haloconv::pointwise
