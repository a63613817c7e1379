#include "conv2d/families/row_strips/pack_filter.h"

#include "conv2d/device/element.cuh"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"
#include "cuda/dependent_launch.cuh"

namespace haloconv::row_strips {

namespace {

constexpr int kPackColumnThreads = 128;

// A value's bits, those of TF32 for float32.
template <class T>
using PackedBits = std::conditional_t<std::is_same_v<T, float>, uint32_t, uint16_t>;

template <class T>
__global__ void __launch_bounds__(kPackColumnThreads)
    pack_columns_kernel(const __grid_constant__ Arguments args, const T* __restrict__ filter,
                        PackedBits<T>* __restrict__ packed) {
  allow_dependents();
  const auto index = static_cast<int32_t>(blockIdx.x * kPackColumnThreads + threadIdx.x);
  if (index >= args.packed_values<T>()) return;
  const int64_t at = args.element<T>(index);
  packed[index] =
      static_cast<PackedBits<T>>(Element<T>::bits_of_weight(at >= 0 ? filter[at] : T(0)));
}

}  // namespace

template <class T>
void launch_pack_filter(const Arguments& args, const T* filter, void* packed, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(ceil_div(args.packed_values<T>(), kPackColumnThreads));
  pack_columns_kernel<T><<<blocks, kPackColumnThreads, 0, stream>>>(
      args, filter, static_cast<PackedBits<T>*>(packed));
  check_launch("row_strips pack_filter");
}

template void launch_pack_filter(const Arguments&, const float*, void*, cudaStream_t);
template void launch_pack_filter(const Arguments&, const __half*, void*, cudaStream_t);
template void launch_pack_filter(const Arguments&, const __nv_bfloat16*, void*, cudaStream_t);

}  // namespace haloconv::row_strips
