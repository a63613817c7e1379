#include "conv2d/families/few_channels/pack_filter.h"

#include "conv2d/device/round.cuh"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::few_channels {

namespace {

constexpr int kPackThreads = 128;

__global__ void __launch_bounds__(kPackThreads)
    pack_taps_kernel(const __grid_constant__ Arguments args, const float* __restrict__ filter,
                     uint32_t* __restrict__ packed) {
  const auto index = static_cast<int32_t>(blockIdx.x * kPackThreads + threadIdx.x);
  if (index >= args.packed_values()) return;
  const int64_t at = args.element(index);
  packed[index] = round_to_tf32(at >= 0 ? filter[at] : 0);
}

}  // namespace

void launch_pack_filter(const Arguments& args, const float* filter, void* packed,
                        cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(ceil_div(args.packed_values(), kPackThreads));
  pack_taps_kernel<<<blocks, kPackThreads, 0, stream>>>(args, filter,
                                                        static_cast<uint32_t*>(packed));
  check_launch("few_channels pack_filter");
}

}  // namespace haloconv::few_channels
