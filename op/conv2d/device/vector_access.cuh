// Loads and stores of 1, 2 or 4 neighbouring floats. Shared memory is addressed by 32-bit numbers,
// as the instructions do, which saves registers and instructions.
#pragma once

#include <cstdint>

namespace haloconv {

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// The same place in the shared memory of another block of the cluster.
__device__ __forceinline__ uint32_t peer_address(uint32_t at, int32_t block) {
  uint32_t peer;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(at), "r"(block));
  return peer;
}

// `bytes` after a place that all lanes have: an address that takes hardly an instruction. They are
// not negative, or the address is not used.
template <class T>
__device__ __forceinline__ T* at_bytes(T* base, int32_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(base) + static_cast<uint32_t>(bytes));
}

// Neighbours in forms that floats and bits have alike, each one instruction: of floats as NAME(),
// of words of bits as NAME_bits(). T is the type in C++, PTX its name in the instruction, C its
// constraint.
//
// load_shared_if(): without `wanted`, v stays as it is. load_global(): zeros unless `inside`.
// store_global(): nothing unless `inside`, by a predicate, where the compiler would make a branch
// of an if.
#define HALOCONV_VECTOR_ACCESS(SUFFIX, T, IN, PTX, ZERO, C)                                      \
  __device__ __forceinline__ void load_shared##SUFFIX(uint32_t at, T(&v)[1]) {                   \
    asm volatile("ld.shared." PTX " %0, [%1];" : "=" C(v[0]) : "r"(at) : "memory");              \
  }                                                                                              \
  __device__ __forceinline__ void load_shared##SUFFIX(uint32_t at, T(&v)[2]) {                   \
    asm volatile("ld.shared.v2." PTX " {%0, %1}, [%2];"                                          \
                 : "=" C(v[0]), "=" C(v[1])                                                      \
                 : "r"(at)                                                                       \
                 : "memory");                                                                    \
  }                                                                                              \
  __device__ __forceinline__ void load_shared##SUFFIX(uint32_t at, T(&v)[4]) {                   \
    asm volatile("ld.shared.v4." PTX " {%0, %1, %2, %3}, [%4];"                                  \
                 : "=" C(v[0]), "=" C(v[1]), "=" C(v[2]), "=" C(v[3])                            \
                 : "r"(at)                                                                       \
                 : "memory");                                                                    \
  }                                                                                              \
  __device__ __forceinline__ void load_shared##SUFFIX##_if(bool wanted, uint32_t at, T(&v)[4]) { \
    asm volatile(                                                                                \
        "{\n"                                                                                    \
        ".reg .pred wanted;\n"                                                                   \
        "setp.ne.b32 wanted, %5, 0;\n"                                                           \
        "@wanted ld.shared.v4." PTX                                                              \
        " {%0, %1, %2, %3}, [%4];\n"                                                             \
        "}\n"                                                                                    \
        : "+" C(v[0]), "+" C(v[1]), "+" C(v[2]), "+" C(v[3])                                     \
        : "r"(at), "r"(static_cast<int32_t>(wanted))                                             \
        : "memory");                                                                             \
  }                                                                                              \
  __device__ __forceinline__ void load_global##SUFFIX(const IN* at, T(&v)[2], bool inside) {     \
    asm volatile(                                                                                \
        "{\n"                                                                                    \
        ".reg .pred inside;\n"                                                                   \
        "setp.ne.b32 inside, %3, 0;\n"                                                           \
        "mov." PTX " %0, " ZERO                                                                  \
        ";\n"                                                                                    \
        "mov." PTX " %1, " ZERO                                                                  \
        ";\n"                                                                                    \
        "@inside ld.global.nc.v2." PTX                                                           \
        " {%0, %1}, [%2];\n"                                                                     \
        "}\n"                                                                                    \
        : "=&" C(v[0]), "=&" C(v[1])                                                             \
        : "l"(at), "r"(static_cast<int32_t>(inside)));                                           \
  }                                                                                              \
  __device__ __forceinline__ void store_global##SUFFIX(IN* at, const T(&v)[1], bool inside) {    \
    asm volatile(                                                                                \
        "{\n"                                                                                    \
        ".reg .pred inside;\n"                                                                   \
        "setp.ne.b32 inside, %2, 0;\n"                                                           \
        "@inside st.global." PTX                                                                 \
        " [%0], %1;\n"                                                                           \
        "}\n" ::"l"(at),                                                                         \
        C(v[0]), "r"(static_cast<int32_t>(inside))                                               \
        : "memory");                                                                             \
  }                                                                                              \
  __device__ __forceinline__ void store_global##SUFFIX(IN* at, const T(&v)[2], bool inside) {    \
    asm volatile(                                                                                \
        "{\n"                                                                                    \
        ".reg .pred inside;\n"                                                                   \
        "setp.ne.b32 inside, %3, 0;\n"                                                           \
        "@inside st.global.v2." PTX                                                              \
        " [%0], {%1, %2};\n"                                                                     \
        "}\n" ::"l"(at),                                                                         \
        C(v[0]), C(v[1]), "r"(static_cast<int32_t>(inside))                                      \
        : "memory");                                                                             \
  }                                                                                              \
  __device__ __forceinline__ void store_global##SUFFIX(IN* at, const T(&v)[4], bool inside) {    \
    asm volatile(                                                                                \
        "{\n"                                                                                    \
        ".reg .pred inside;\n"                                                                   \
        "setp.ne.b32 inside, %5, 0;\n"                                                           \
        "@inside st.global.v4." PTX                                                              \
        " [%0], {%1, %2, %3, %4};\n"                                                             \
        "}\n" ::"l"(at),                                                                         \
        C(v[0]), C(v[1]), C(v[2]), C(v[3]), "r"(static_cast<int32_t>(inside))                    \
        : "memory");                                                                             \
  }
HALOCONV_VECTOR_ACCESS(, float, float, "f32", "0f00000000", "f")
HALOCONV_VECTOR_ACCESS(_bits, uint32_t, void, "b32", "0", "r")
#undef HALOCONV_VECTOR_ACCESS

__device__ __forceinline__ void store_shared(uint32_t at, const float (&v)[1]) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(v[0]) : "memory");
}
__device__ __forceinline__ void store_shared(uint32_t at, const float (&v)[2]) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(v[0]), "f"(v[1]) : "memory");
}

// Two pairs, each from a place of its own; without `wanted` v stays as it is.
__device__ __forceinline__ void load_shared_pairs_if(bool wanted, uint32_t first, uint32_t second,
                                                     float (&v)[4]) {
  asm volatile(
      "{\n"
      ".reg .pred wanted;\n"
      "setp.ne.b32 wanted, %6, 0;\n"
      "@wanted ld.shared.v2.f32 {%0, %1}, [%4];\n"
      "@wanted ld.shared.v2.f32 {%2, %3}, [%5];\n"
      "}\n"
      : "+f"(v[0]), "+f"(v[1]), "+f"(v[2]), "+f"(v[3])
      : "r"(first), "r"(second), "r"(static_cast<int32_t>(wanted))
      : "memory");
}

__device__ __forceinline__ void load_cluster(uint32_t at, float (&v)[1]) {
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v[0]) : "r"(at) : "memory");
}
__device__ __forceinline__ void load_cluster(uint32_t at, float (&v)[2]) {
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
               : "=f"(v[0]), "=f"(v[1])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void load_cluster(uint32_t at, float (&v)[4]) {
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(at)
               : "memory");
}

// Bits: of one 16-bit value, or words of two each.
__device__ __forceinline__ void load_shared_bits(uint32_t at, uint16_t& bits) {
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(bits) : "r"(at) : "memory");
}
__device__ __forceinline__ void load_shared_bits(uint32_t at, uint32_t& bits) {
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(bits) : "r"(at) : "memory");
}
__device__ __forceinline__ void store_shared_bits(uint32_t at, uint32_t bits) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(bits) : "memory");
}
__device__ __forceinline__ void store_shared_bits(uint32_t at, uint16_t bits) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(at), "h"(bits) : "memory");
}

// 0 unless `inside`.
__device__ __forceinline__ float load_global(const float* at, bool inside) {
  float value;
  asm volatile(
      "{\n"
      ".reg .pred inside;\n"
      "setp.ne.b32 inside, %2, 0;\n"
      "mov.f32 %0, 0f00000000;\n"
      "@inside ld.global.nc.f32 %0, [%1];\n"
      "}\n"
      : "=&f"(value)
      : "l"(at), "r"(static_cast<int32_t>(inside)));
  return value;
}

__device__ __forceinline__ void load_global(const float* at, float (&v)[1], bool inside) {
  v[0] = load_global(at, inside);
}
__device__ __forceinline__ void load_global(const float* at, float (&v)[4], bool inside) {
  asm volatile(
      "{\n"
      ".reg .pred inside;\n"
      "setp.ne.b32 inside, %5, 0;\n"
      "mov.f32 %0, 0f00000000;\n"
      "mov.f32 %1, 0f00000000;\n"
      "mov.f32 %2, 0f00000000;\n"
      "mov.f32 %3, 0f00000000;\n"
      "@inside ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\n"
      "}\n"
      : "=&f"(v[0]), "=&f"(v[1]), "=&f"(v[2]), "=&f"(v[3])
      : "l"(at), "r"(static_cast<int32_t>(inside)));
}

// Loads that do not fill the L1 cache, which is left to other data.
__device__ __forceinline__ void stream_global(const float* at, float (&v)[2], bool inside) {
  asm volatile(
      "{\n"
      ".reg .pred inside;\n"
      "setp.ne.b32 inside, %3, 0;\n"
      "mov.f32 %0, 0f00000000;\n"
      "mov.f32 %1, 0f00000000;\n"
      "@inside ld.global.nc.L1::no_allocate.v2.f32 {%0, %1}, [%2];\n"
      "}\n"
      : "=&f"(v[0]), "=&f"(v[1])
      : "l"(at), "r"(static_cast<int32_t>(inside)));
}

// One or two 16-bit values, as their bits; zeros unless `inside`.
__device__ __forceinline__ void load_global_bits(const void* at, uint16_t& bits, bool inside) {
  asm volatile(
      "{\n"
      ".reg .pred inside;\n"
      "setp.ne.b32 inside, %2, 0;\n"
      "mov.b16 %0, 0;\n"
      "@inside ld.global.nc.b16 %0, [%1];\n"
      "}\n"
      : "=&h"(bits)
      : "l"(at), "r"(static_cast<int32_t>(inside)));
}
__device__ __forceinline__ void load_global_bits(const void* at, uint32_t& bits, bool inside) {
  asm volatile(
      "{\n"
      ".reg .pred inside;\n"
      "setp.ne.b32 inside, %2, 0;\n"
      "mov.b32 %0, 0;\n"
      "@inside ld.global.nc.b32 %0, [%1];\n"
      "}\n"
      : "=&r"(bits)
      : "l"(at), "r"(static_cast<int32_t>(inside)));
}
__device__ __forceinline__ void stream_global_bits(const void* at, uint32_t& bits, bool inside) {
  asm volatile(
      "{\n"
      ".reg .pred inside;\n"
      "setp.ne.b32 inside, %2, 0;\n"
      "mov.b32 %0, 0;\n"
      "@inside ld.global.nc.L1::no_allocate.b32 %0, [%1];\n"
      "}\n"
      : "=&r"(bits)
      : "l"(at), "r"(static_cast<int32_t>(inside)));
}

// Two sectors, `kApart` bytes apart, to the L1 cache.
template <int kApart>
__device__ __forceinline__ void prefetch_l1(const void* at, bool wanted) {
  asm volatile(
      "{\n"
      ".reg .pred wanted;\n"
      "setp.ne.b32 wanted, %2, 0;\n"
      "@wanted prefetch.global.L1 [%0];\n"
      "@wanted prefetch.global.L1 [%0 + %1];\n"
      "}\n" ::"l"(at),
      "n"(kApart), "r"(static_cast<int32_t>(wanted)));
}

// One or two 16-bit values, as their bits; nothing unless `inside`.
__device__ __forceinline__ void store_global_bits(void* at, uint16_t bits, bool inside) {
  asm volatile(
      "{\n"
      ".reg .pred inside;\n"
      "setp.ne.b32 inside, %2, 0;\n"
      "@inside st.global.b16 [%0], %1;\n"
      "}\n" ::"l"(at),
      "h"(bits), "r"(static_cast<int32_t>(inside))
      : "memory");
}
__device__ __forceinline__ void store_global_bits(void* at, uint32_t bits, bool inside) {
  asm volatile(
      "{\n"
      ".reg .pred inside;\n"
      "setp.ne.b32 inside, %2, 0;\n"
      "@inside st.global.b32 [%0], %1;\n"
      "}\n" ::"l"(at),
      "r"(bits), "r"(static_cast<int32_t>(inside))
      : "memory");
}
}  // namespace haloconv
