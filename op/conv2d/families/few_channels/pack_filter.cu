#include "conv2d/families/few_channels/pack_filter.h"

#include "conv2d/device/element.cuh"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::few_channels {

namespace {

constexpr int kPackThreads = 128;

// A value's bits, those of TF32 for float32.
template <class T>
using Packed = std::conditional_t<std::is_same_v<T, float>, uint32_t, uint16_t>;

template <class T>
__global__ void __launch_bounds__(kPackThreads)
    pack_taps_kernel(const __grid_constant__ Arguments args, const T* __restrict__ filter,
                     Packed<T>* __restrict__ packed) {
  const auto index = static_cast<int32_t>(blockIdx.x * kPackThreads + threadIdx.x);
  if (index >= args.packed_values<T>()) return;
  const int64_t at = args.element<T>(index);
  packed[index] = static_cast<Packed<T>>(Element<T>::bits_of_weight(at >= 0 ? filter[at] : T(0)));
}

}  // namespace

template <class T>
void launch_pack_filter(const Arguments& args, const T* filter, void* packed, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(ceil_div(args.packed_values<T>(), kPackThreads));
  pack_taps_kernel<T>
      <<<blocks, kPackThreads, 0, stream>>>(args, filter, static_cast<Packed<T>*>(packed));
  check_launch("few_channels pack_filter");
}

template void launch_pack_filter(const Arguments&, const float*, void*, cudaStream_t);
template void launch_pack_filter(const Arguments&, const __half*, void*, cudaStream_t);
template void launch_pack_filter(const Arguments&, const __nv_bfloat16*, void*, cudaStream_t);

}  // namespace haloconv::few_channels
