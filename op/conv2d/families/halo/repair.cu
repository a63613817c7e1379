#include "conv2d/families/halo/repair.h"

#include "conv2d/device/element.cuh"
#include "cuda/check.h"

namespace haloconv::halo {

namespace {

constexpr int kRepairThreads = 256;
constexpr int kRepairWarps = kRepairThreads / 32;

// A block computes one item of the list at a time. Its warps share out the source's chunks. A
// warp's lanes share out the 8 rows in the order of the packed weights: lane 4i + j has row i, and
// of the chunk's channels every fourth word from word j on.
template <class T>
class Repairer {
  static constexpr int kChunk = 2 * Element<T>::kPerCell, kPerWord = Element<T>::kPerWord;

 public:
  __device__ __forceinline__ Repairer(const Arguments& args, const Repair& item)
      : args_(args),
        item_(item),
        group_(item.unit / args.repair_units()),
        first_row_(item.unit % args.repair_units() * kRepairRows),
        row_(args.folded.at(first_row_)),
        warp_(static_cast<int32_t>(threadIdx.x) / 32),
        lane_(static_cast<int32_t>(threadIdx.x) % 32) {}

  __device__ __forceinline__ void run() const {
    __shared__ float sums[kRepairWarps][kRepairRows];
    float sum = 0;
    for (int32_t chunk = warp_; chunk < args_.chunks; chunk += kRepairWarps) {
      sum += sum_of_chunk(chunk);
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (lane_ % 4 == 0) sums[warp_][lane_ / 4] = sum;
    __syncthreads();
    const auto row = static_cast<int32_t>(threadIdx.x);
    if (row < kRepairRows && row_.channel + row < args_.rows) {
      sum = 0;
      for (const auto& of_warp : sums) sum += of_warp[row];
      store(row_.channel + row, sum);
    }
    __syncthreads();  // the next item's come to the same place
  }

 private:
  __device__ __forceinline__ float sum_of_chunk(int32_t chunk) const {
    const int32_t channel = chunk * kChunk + lane_ % 4 * kPerWord;
    const T* const source = static_cast<const T*>(args_.source) +
                            int64_t{item_.image} * args_.source_n +
                            (int64_t{group_} * args_.channels + channel) * args_.source_c;
    const int32_t channels = args_.channels - channel;  // from the lane's on
    const int64_t row_group =
        int64_t{group_} * (args_.repair_units() * kRepairRows / kRowsOfGroup) +
        first_row_ / kRowsOfGroup;
    const uint4* const weights =
        static_cast<const uint4*>(args_.packed) +
        (row_group * args_.packed_steps + int64_t{chunk} * args_.taps) * 128 +
        first_row_ % kRowsOfGroup / 16 * 32 + lane_;
    const bool second = first_row_ % 16 != 0;  // of the two rows that a lane has weights of
    const OwnTaps h = args_.own_taps_h(row_), w = args_.own_taps_w(row_);
    float sum = 0;
#pragma unroll 1
    for (int32_t i = 0; i < h.count; ++i) {
      const int32_t y = args_.h.met_by(item_.p, h.first + i);
      const T* const line = source + y * int64_t{args_.source_h};
      const uint4* of_tap = weights + ((h.first + i) * args_.w.taps + w.first) * 128;
      const bool has_line = y >= 0 && y < args_.h.source_size;
#pragma unroll 4
      for (int32_t j = 0; j < w.count; ++j, of_tap += 128) {
        const int32_t x = args_.w.met_by(item_.q, w.first + j);
        const bool inside = has_line && x >= 0 && x < args_.w.source_size;
        const uint4 words = *of_tap;
        const T* pixel = line + x;
#pragma unroll
        for (int k = 0; k < kPerWord; ++k, pixel += args_.source_c) {
          const float low = Element<T>::load(pixel, inside && channels > k);
          const float high = Element<T>::load(pixel + 4 * kPerWord * args_.source_c,
                                              inside && channels > 4 * kPerWord + k);
          sum = add_product(sum, low, second ? words.y : words.x, k);
          sum = add_product(sum, high, second ? words.w : words.z, k);
        }
      }
    }
    return sum;
  }

  static __device__ __forceinline__ float add_product(float sum, float pixel, uint32_t weights,
                                                      int index) {
    return fmaf(Element<T>::operand(pixel), Element<T>::value(weights, index), sum);
  }

  __device__ __forceinline__ void store(int32_t channel, float sum) const {
    const Fusion& fusion = args_.fusion;
    const int64_t of_all = int64_t{group_} * args_.rows + channel;
    const int64_t at = int64_t{item_.image} * args_.destination_n + row_.fold * args_.folded.step +
                       of_all * args_.destination_c + item_.p * int64_t{args_.destination_h} +
                       item_.q * int64_t{args_.destination_w};
    const auto load = [](const void* values, int64_t index, float otherwise) {
      if (values == nullptr) return otherwise;
      return Element<T>::to_float(static_cast<const T*>(values)[index]);
    };
    sum += load(args_.bias, of_all, -0.0f);
    float values[1] = {sum * load(fusion.scale, of_all, 1) + load(fusion.shift, of_all, -0.0f) +
                       load(fusion.residual, at, -0.0f)};
    with_activation(fusion.activation, [&](auto activation) { values[0] = activation(values[0]); });
    Element<T>::store(static_cast<T*>(args_.destination) + at, values, true);
  }

  const Arguments& args_;
  const Repair& item_;
  const int32_t group_, first_row_;
  const FoldedRows::Row row_;
  const int32_t warp_, lane_;
};

template <class T>
__global__ void __launch_bounds__(kRepairThreads)
    repair_kernel(const __grid_constant__ Arguments args) {
  const uint32_t count = min(*args.repair_count, kMaxRepairs);
  for (uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    const Repair item = args.repairs[i];
    Repairer<T>(args, item).run();
  }
}

}  // namespace

template <class T>
void launch_repair(const Arguments& args, int blocks, cudaStream_t stream) {
  repair_kernel<T><<<static_cast<unsigned>(blocks), kRepairThreads, 0, stream>>>(args);
  check_launch("halo repair");
}

template void launch_repair<float>(const Arguments&, int, cudaStream_t);
template void launch_repair<PreciseFloat>(const Arguments&, int, cudaStream_t);
template void launch_repair<__half>(const Arguments&, int, cudaStream_t);
template void launch_repair<__nv_bfloat16>(const Arguments&, int, cudaStream_t);

}  // namespace haloconv::halo
