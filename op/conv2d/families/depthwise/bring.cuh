// Words on their way from global to shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

namespace haloconv::depthwise {

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;

// Zero unless `inside`, `from` is then not read. Copies of 4 bytes and more are under way until the
// block waits for them, where the chip has such.
template <class Word>
__device__ __forceinline__ void bring(void* to, const void* from, bool inside) {
#if __CUDA_ARCH__ >= 800
  if constexpr (sizeof(Word) >= 4) {
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    const uint32_t bytes = inside ? sizeof(Word) : 0;
    if constexpr (sizeof(Word) == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                   "r"(bytes)
                   : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from),
                   "n"(sizeof(Word)), "r"(bytes)
                   : "memory");
    }
    return;
  }
#endif
  *static_cast<Word*>(to) = inside ? *static_cast<const Word*>(from) : Word{};
}

// The first `count` of 16 bytes' elements, zeros for the others: none is read of those.
template <class T>
__device__ __forceinline__ void bring_first(T* to, const T* from, int32_t count) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
               "r"(count * static_cast<int32_t>(sizeof(T)))
               : "memory");
#else
  for (int32_t i = 0; i < static_cast<int32_t>(16 / sizeof(T)); ++i) {
    to[i] = i < count ? from[i] : T(0.0f);
  }
#endif
}

__device__ __forceinline__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Until all of them but the last few commits' have come.
template <int kCommits>
__device__ __forceinline__ void wait_for_all_but() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kCommits) : "memory");
#endif
}

}  // namespace haloconv::depthwise
