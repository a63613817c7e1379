#pragma once

#include <cstdint>

namespace haloconv {

// 16 bytes, by their words, to shared memory.
__device__ __forceinline__ void store_unit(uint32_t at, const uint32_t (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}

}  // namespace haloconv
