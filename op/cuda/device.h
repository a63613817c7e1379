// The current device of the CUDA runtime that the kernels are linked with.
#pragma once

namespace haloconv {

// Makes it the calling thread's. The caller may have another copy of the runtime, which has set the
// device for itself: what both share is the driver's context, which is that of one of them.
void use_device(int device);

}  // namespace haloconv
