// channel_results.cuh with what is fused on the way: (sum + bias) * scale + shift + residual, and
// its activation.
//
// What most networks fuse is quick: one factor and one offset a channel, which a table in shared
// memory holds, and one of the activations of quick_fusion.h; its steps are unrolled. All else is a
// loop of steps, a turn each, because so many activations unrolled over all sums are very long
// code.
#pragma once

#include "conv2d/device/channel_steps.cuh"
#include "cuda/named_barrier.cuh"

namespace haloconv::sm90 {

// NaN stays NaN.
__device__ __forceinline__ float bounded(float value, float low, float high) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(value), "f"(low));
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(result), "f"(high));
  return result;
}

// Calls body(f) with a quick activation as a function f of floats, for results of type T.
template <class T, class Body>
__device__ __forceinline__ void with_quick_activation(const QuickFusion& fusion, Body body) {
  if (fusion.activation == QuickActivation::kBounds) {
    return body([&](float value) { return bounded(value, fusion.low, fusion.high); });
  }
  if constexpr (sizeof(T) == 2) {
    if (fusion.activation == QuickActivation::kGelu) {
      return body([](float value) { return quick_gelu(value); });
    }
    body([&](float value) { return gated(fusion.gate, value); });
  } else {
    body([](float value) { return value * activations::sigmoid(value); });
  }
}

template <class Activate>
__device__ __forceinline__ void activate_step(float (&values)[4][2], Activate activate) {
#pragma unroll
  for (auto& pair : values) {
    pair[0] = activate(pair[0]);
    pair[1] = activate(pair[1]);
  }
}

// Of kChannels channels: what is multiplied and what is added then, where nothing is left out.
template <int kChannels>
struct ChannelTable {
  alignas(16) float2 entries[kChannels];  // two are read at a time

  // By threads of which this is number `thread`.
  template <class T, int kThreads>
  __device__ __forceinline__ void fill(const Results& results, int32_t first_channel,
                                       int32_t thread) {
    const Fusion& fusion = results.fusion;
    const void* const offsets = fusion.shift != nullptr ? fusion.shift : results.bias;
    const auto number = [](const void* operand, int32_t channel, float otherwise) {
      return operand == nullptr ? otherwise
                                : Element<T>::to_float(static_cast<const T*>(operand)[channel]);
    };
#pragma unroll
    for (int32_t i = thread; i < kChannels; i += kThreads) {
      const int32_t channel = min(first_channel + i, results.channels - 1);
      // What is left out changes nothing, not even the sign of a zero.
      entries[i] =
          make_float2(number(fusion.scale, channel, 1.0f), number(offsets, channel, -0.0f));
    }
  }
};

// What a thread's sums of a step are multiplied by, and what is added then.
struct StepFactors {
  float4 pairs[4];  // of two channels each: factor, offset, factor, offset

  template <int kChannels>
  __device__ __forceinline__ StepFactors(const ChannelTable<kChannels>& table, int first,
                                         int32_t t) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      pairs[j] = *reinterpret_cast<const float4*>(&table.entries[first + j * 8 + t * 2]);
    }
  }

  // The step from channel `first` on of a block's pixel, of which `half` is a thread's second.
  template <int kHalf>
  __device__ __forceinline__ void apply(const float (&sums)[kHalf], int first, int half,
                                        float (&values)[4][2]) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float* const pair = &sums[first / 2 + j * 4 + half * 2];
      values[j][0] = pair[0] * pairs[j].x + pairs[j].y;
      values[j][1] = pair[1] * pairs[j].z + pairs[j].w;
    }
  }
};

template <class T, int kRowBlocks, int kHalf>
__device__ __forceinline__ void write_quick_results(const Results& results,
                                                    const QuickFusion& fusion,
                                                    const ChannelTable<2 * kHalf>& table,
                                                    const Places<kRowBlocks>& places,
                                                    int32_t first_channel, int32_t lane,
                                                    const float (&sums)[kRowBlocks][kHalf]) {
  constexpr int kPixels = Places<kRowBlocks>::kCount;
  const int32_t t = lane % 4;
  const bool adds_residual = results.fusion.residual != nullptr;
  // Residuals of so many groups of 32 channels are on their way while one group is written. While
  // all sums are there, large tiles have no registers for two.
  constexpr int kAhead = kRowBlocks * kHalf <= 32 ? 2 : 1;
  StepResidual<T> residuals[kAhead][kPixels];
  const auto load_residuals = [&](int first) {
    if (!adds_residual || first >= 2 * kHalf) return;
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      residuals[first / kStepChannels % kAhead][i].load(results, places.at[i],
                                                        first_channel + first, places.inside[i], t);
    }
  };
  load_residuals(0);
  if constexpr (kAhead > 1) load_residuals(kStepChannels);
#pragma unroll
  for (int first = 0; first < 2 * kHalf; first += kStepChannels) {
    const int32_t channel = first_channel + first;
    if (channel >= results.channels) break;
    const StepFactors factors(table, first, t);
    float values[kPixels][4][2];
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      factors.apply(sums[i / 2], first, i % 2, values[i]);
      if (adds_residual) residuals[first / kStepChannels % kAhead][i].add_to(values[i], t);
    }
    load_residuals(first + kAhead * kStepChannels);
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      with_quick_activation<T>(fusion, [&](auto activate) { activate_step(values[i], activate); });
      write_step<T>(results, values[i], places.at[i], channel, places.inside[i], t);
    }
  }
}

template <class T, int kRowBlocks, int kHalf>
__device__ __forceinline__ void write_results_in_turns(const Results& results,
                                                       const Places<kRowBlocks>& places,
                                                       int32_t first_channel, int32_t lane,
                                                       const float (&sums)[kRowBlocks][kHalf]) {
  constexpr int kPixels = Places<kRowBlocks>::kCount;
  constexpr int kSteps = 2 * kHalf / kStepChannels * kPixels;
  const int32_t t = lane % 4;
  const bool adds_residual = results.fusion.residual != nullptr;
  const int32_t channels_left = results.channels - first_channel;
  const int32_t steps = min(kSteps, (channels_left + kStepChannels - 1) / kStepChannels * kPixels);
  StepResidual<T> residual;
  if (adds_residual) residual.load(results, places.at[0], first_channel, places.inside[0], t);
#pragma unroll 1
  for (int32_t step = 0; step < steps; ++step) {
    const int32_t pixel = step % kPixels;
    const int32_t channel = first_channel + step / kPixels * kStepChannels;
    float values[4][2];
    take_sums<0, kSteps>(sums, step, values);
    const auto add = [](float value, float number) { return value + number; };
    const auto multiply = [](float value, float number) { return value * number; };
    with_operand<T>(results, results.bias, channel, t, values, add);
    with_operand<T>(results, results.fusion.scale, channel, t, values, multiply);
    with_operand<T>(results, results.fusion.shift, channel, t, values, add);
    if (adds_residual) {
      residual.add_to(values, t);
      const int32_t next = (step + 1) % kPixels;
      residual.load(results, one_of(places.at, next),
                    first_channel + (step + 1) / kPixels * kStepChannels,
                    one_of(places.inside, next) && step + 1 < steps, t);
    }
    with_activation(results.fusion.activation, [&](auto activate) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        values[j][0] = activate(values[j][0]);
        values[j][1] = activate(values[j][1]);
      }
    });
    write_step<T>(results, values, one_of(places.at, pixel), channel, one_of(places.inside, pixel),
                  t);
  }
}

// The tiles of a block, of kChannels channels, which kThreads threads of it write.
template <class T, int kChannels, int kThreads>
class FusedTiles {
 public:
  __device__ __forceinline__ FusedTiles(const Results& results, ChannelTable<kChannels>& table)
      : results_(results), table_(table) {}

  // Before a tile is written.
  __device__ __forceinline__ void begin(int32_t first_channel) {
    if (!results_.quick.is_quick || first_channel == first_channel_) return;
    sync_threads<kThreads>();  // nobody reads the table of the tile before
    table_.template fill<T, kThreads>(results_, first_channel, static_cast<int32_t>(threadIdx.x));
    sync_threads<kThreads>();
    first_channel_ = first_channel;
  }

  template <int kRowBlocks>
  __device__ __forceinline__ void write(const Places<kRowBlocks>& places, int32_t first_channel,
                                        int32_t lane,
                                        const float (&sums)[kRowBlocks][kChannels / 2]) const {
    if (results_.quick.is_quick) {
      write_quick_results<T>(results_, results_.quick, table_, places, first_channel, lane, sums);
    } else {
      write_results_in_turns<T>(results_, places, first_channel, lane, sums);
    }
  }

  __device__ __forceinline__ const QuickFusion& quick() const { return results_.quick; }
  __device__ __forceinline__ const ChannelTable<kChannels>& table() const { return table_; }

 private:
  const Results& results_;
  ChannelTable<kChannels>& table_;
  int32_t first_channel_ = -1;  // of the table
};

// Of a kernel without anything fused.
template <>
struct ChannelTable<0> {};
template <class T, int kThreads>
class FusedTiles<T, 0, kThreads> {
 public:
  __device__ __forceinline__ FusedTiles(const Results&, ChannelTable<0>&) {}
  __device__ __forceinline__ void begin(int32_t) {}
};

// A tile's results, with whatever is fused.
template <class T, int kChannels, int kThreads, int kRowBlocks, int kHalf>
__device__ __forceinline__ void write_tile(const FusedTiles<T, kChannels, kThreads>& fused,
                                           const Results& results, const Places<kRowBlocks>& places,
                                           int32_t first_channel, int32_t lane,
                                           float (&sums)[kRowBlocks][kHalf]) {
  if constexpr (kChannels > 0) {
    fused.write(places, first_channel, lane, sums);
  } else {
    write_results<T>(results, places, first_channel, lane, sums);
  }
}

// Where a pixel of the result lies.
struct Place {
  bool inside;
  int64_t at;  // elements to channel 0
};

// Brings a tile's residual to the L2 cache, in lines of 128 bytes that kThreads threads share;
// nothing of tiles with fewer bytes in a pixel. place_of(pixel) gives where one of its pixels lies.
template <class T, int kPixels, int kChannels, int kThreads, class PlaceOf>
__device__ __forceinline__ void prefetch_residual(const Results& results, int32_t first_channel,
                                                  PlaceOf place_of) {
  constexpr int kLineChannels = 128 / sizeof(T), kTileLines = kPixels * (kChannels / kLineChannels);
  constexpr int kLines = kTileLines > 0 ? kTileLines / kPixels : 1;  // of a pixel
#pragma unroll
  for (int first = 0; first < kTileLines; first += kThreads) {
    const int32_t line = first + static_cast<int32_t>(threadIdx.x);
    const int32_t channel = first_channel + line % kLines * kLineChannels;
    if (line >= kTileLines || channel >= results.channels) continue;
    const Place place = place_of(line / kLines);
    if (!place.inside) continue;
    const T* const at = static_cast<const T*>(results.fusion.residual) + place.at + channel;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(at)));
  }
}

}  // namespace haloconv::sm90
