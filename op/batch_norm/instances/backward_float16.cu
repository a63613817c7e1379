#include "batch_norm/backward_launch.cuh"

namespace haloconv::batch_norm {

template void launch_backward_of<__half>(ActivationKind, const Plan&, const Backward&,
                                         CUstream_st*);

}  // namespace haloconv::batch_norm
