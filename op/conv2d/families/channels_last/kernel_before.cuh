// When a block waits for the kernel before. From the end of that kernel to a block's first copy
// nothing should be left to work out, so the thread that issues the copies waits as late as it can.
// Threads that multiply wait for what it brings, and so for that kernel too, unless they read
// memory themselves.
#pragma once

#include "cuda/dependent_launch.cuh"

namespace haloconv::sm90::channels_last {

class KernelBefore {
 public:
  // Waits at the first call only.
  __device__ __forceinline__ void wait() {
    if (has_ended_) return;
    wait_for_kernel_before();
    has_ended_ = true;
  }

 private:
  bool has_ended_ = false;
};

}  // namespace haloconv::sm90::channels_last
