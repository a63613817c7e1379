#include "conv2d/families/relaid/block_copy_kernels.h"

#include <cuda_runtime.h>

#include "conv2d/geometry/integers.h"
#include "cuda/dependent_launch.cuh"

namespace haloconv::relaid {

namespace {

constexpr int kThreads = 256;
constexpr int kUnits = 2;  // of a thread, both on their way at a time

template <class Bits, int kUnit>
struct alignas(kUnit * sizeof(Bits)) Unit {
  Bits of[kUnit];
};

// The first elements of a thread's units, of all that are there.
template <int kUnit, class Body>
__device__ __forceinline__ void for_units(int32_t elements, Body body) {
  const auto block = static_cast<int32_t>(blockIdx.x), thread = static_cast<int32_t>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int32_t element = ((block * kUnits + i) * kThreads + thread) * kUnit;
    if (element < elements) body(i, element);
  }
}

// Neighbouring threads have neighbouring places of the dense tensor.
template <class Bits, int kUnit>
__global__ void __launch_bounds__(kThreads)
    to_blocks_kernel(const __grid_constant__ BlockCopy copy, int32_t elements) {
  using Some = Unit<Bits, kUnit>;
  allow_dependents();
  wait_for_kernel_before();
  Some some[kUnits] = {};
  for_units<kUnit>(elements, [&](int i, int32_t element) {
    const int32_t pixel = copy.pitch.quotient(element);
    const BlockPlace place = copy.place(pixel, element - pixel * copy.pitch.divisor);
    if (!place.exists) return;
    some[i] = *reinterpret_cast<const Some*>(static_cast<const Bits*>(copy.from) + place.offset);
  });
  for_units<kUnit>(elements, [&](int i, int32_t element) {
    *reinterpret_cast<Some*>(static_cast<Bits*>(copy.to) + element) = some[i];
  });
}

// The same, of those places alone that the tensor has.
template <class Bits, int kUnit>
__global__ void __launch_bounds__(kThreads)
    from_blocks_kernel(const __grid_constant__ BlockCopy copy, const FastDiv channels,
                       int32_t elements) {
  using Some = Unit<Bits, kUnit>;
  allow_dependents();
  wait_for_kernel_before();
  for_units<kUnit>(elements, [&](int, int32_t element) {
    const int32_t pixel = channels.quotient(element);
    const int32_t channel = element - pixel * channels.divisor;
    const BlockPlace place = copy.place(pixel, channel);
    if (!place.exists) return;
    const Bits* const from = static_cast<const Bits*>(copy.from) +
                             int64_t{pixel} * copy.pitch.divisor + copy.first_channel(place.image) +
                             channel;
    *reinterpret_cast<Some*>(static_cast<Bits*>(copy.to) + place.offset) =
        *reinterpret_cast<const Some*>(from);
  });
}

// Calls body.template operator()<Bits, kUnit>() for the copy's.
template <class Body>
void with_unit(const BlockCopy& copy, Body body) {
  const auto with = [&]<class Bits>() {
    switch (copy.unit) {
      case 8:
        if constexpr (sizeof(Bits) == 2) return body.template operator()<Bits, 8>();
        break;
      case 4:
        return body.template operator()<Bits, 4>();
      case 2:
        return body.template operator()<Bits, 2>();
      default:
        return body.template operator()<Bits, 1>();
    }
  };
  if (copy.element_bytes == 2) return with.template operator()<uint16_t>();
  with.template operator()<uint32_t>();
}

unsigned blocks_for(int64_t elements, int32_t unit) {
  return static_cast<unsigned>(ceil_div(elements, int64_t{kThreads} * kUnits * unit));
}

}  // namespace

void launch_to_blocks(const BlockCopy& copy, cudaStream_t stream) {
  const int64_t elements = copy.dense_elements();
  with_unit(copy, [&]<class Bits, int kUnit>() {
    launch_dependent(to_blocks_kernel<Bits, kUnit>, blocks_for(elements, kUnit), kThreads, 0,
                     stream, "relaid to_blocks", copy, narrow(elements));
  });
}

void launch_from_blocks(const BlockCopy& copy, cudaStream_t stream) {
  const int64_t elements = copy.elements();
  with_unit(copy, [&]<class Bits, int kUnit>() {
    launch_dependent(from_blocks_kernel<Bits, kUnit>, blocks_for(elements, kUnit), kThreads, 0,
                     stream, "relaid from_blocks", copy, FastDiv(copy.channels), narrow(elements));
  });
}

}  // namespace haloconv::relaid
