#include "conv2d/families/channels_last/repeat_channels.h"

#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::sm90::channels_last {

namespace {

constexpr int kRepeatThreads = 256;

template <class Bits>
__global__ void __launch_bounds__(kRepeatThreads)
    repeat_channels(const Bits* values, Bits* repeated, int32_t channels, int32_t count) {
  const auto i = static_cast<int32_t>(blockIdx.x * kRepeatThreads + threadIdx.x);
  if (i < count) repeated[i] = values[i % channels];
}

}  // namespace

void launch_repeat_channels(const void* values, void* repeated, int32_t channels, int32_t times,
                            int64_t element_bytes, cudaStream_t stream) {
  const int32_t count = channels * times;
  const auto blocks = static_cast<unsigned>(ceil_div(count, kRepeatThreads));
  const auto launch = [&]<class Bits>(Bits) {
    repeat_channels<<<blocks, kRepeatThreads, 0, stream>>>(
        static_cast<const Bits*>(values), static_cast<Bits*>(repeated), channels, count);
  };
  element_bytes == 2 ? launch(uint16_t{}) : launch(uint32_t{});
  check_launch("sm90 channels_last repeated channels");
}

}  // namespace haloconv::sm90::channels_last
