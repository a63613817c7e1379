// Waits for copies to a ring of stages, one group of copies to a stage, while the next are on the
// way.
#pragma once

#include <cstdint>

#include "cuda/copy_async.cuh"

namespace haloconv {

// Until this thread's copies of all but the last `stages` - 2 stages have ended. There are kLeast
// to kMost stages; the instruction takes its number from no register.
template <int kLeast, int kMost>
__device__ __forceinline__ void wait_for_stage(int32_t stages) {
  static_assert(kLeast >= 2 && kMost <= 5);
  switch (stages) {
    case 2:
      return wait_for_groups<0>();
    case 3:
      return wait_for_groups<1>();
    case 4:
      return wait_for_groups<2>();
    default:
      return wait_for_groups<3>();
  }
}

// For a loop that fetches a stage while it multiplies an earlier one, by `multiply<depths>(part)`:
// while the first stages are fetched there is nothing to multiply.
struct NoProducts {
  template <int kDepths>
  __device__ __forceinline__ void operator()(int) const {}
};

}  // namespace haloconv
