#include "conv2d/families/pointwise/launch.cuh"

namespace haloconv::pointwise {

template void launch_instance<__nv_bfloat16>(const Plan&, const Arguments&, unsigned, cudaStream_t);
template void launch_wgrad_instance<__nv_bfloat16>(const WgradPlan&, const WgradArguments&,
                                                   unsigned, cudaStream_t);
template void launch_paired_instance<__nv_bfloat16>(const WgradPlan&, const PairedArguments&,
                                                    cudaStream_t);

}  // namespace haloconv::pointwise
