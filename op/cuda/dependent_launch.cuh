// A kernel that starts while the one before it in the stream still runs, if it was launched so.
#pragma once

namespace haloconv {

// The next kernel may start as soon as all blocks have got here.
__device__ __forceinline__ void allow_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Until the kernel before has ended and its writes are seen.
__device__ __forceinline__ void wait_for_kernel_before() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace haloconv
