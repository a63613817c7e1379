// The current device of the CUDA runtime that the kernels are linked with.
#pragma once

struct CUstream_st;

namespace haloconv {

// Makes it the calling thread's. The caller may have another copy of the runtime, which has set the
// device for itself: what both share is the driver's context, which is that of one of them.
void use_device(int device);

// Whether a stream of the device, which it makes the calling thread's, is being captured into a
// graph.
bool is_capturing(int device, CUstream_st* stream);

}  // namespace haloconv
