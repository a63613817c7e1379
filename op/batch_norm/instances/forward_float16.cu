#include "batch_norm/forward_launch.cuh"

namespace haloconv::batch_norm {

template void launch_forward_of<__half>(ActivationKind, const Plan&, const Forward&, CUstream_st*);

}  // namespace haloconv::batch_norm
