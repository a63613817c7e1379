// What becomes of the sums of a thread that has several channels of some pixels.
#pragma once

#include "conv2d/families/depthwise_direct/vector_cells.cuh"

namespace haloconv::depthwise_direct {

// A per-channel operand, of a thread's channels.
template <class T, int kChannels>
__device__ __forceinline__ void load_factors(const void* operand, int32_t channel, float otherwise,
                                             float (&factors)[kChannels]) {
#pragma unroll
  for (int i = 0; i < kChannels; ++i) {
    factors[i] = load_or<T>(operand, channel + i, otherwise);
  }
}

struct PixelPlace {
  bool exists;
  int64_t at;  // in the result, of the thread's first channel
};

// Writes the sums and a bias of each channel, of the pixels that exist, which are those at
// place_of(i).
template <class T, int kPixels, int kChannels, class PlaceOf>
__device__ __forceinline__ void write_sums(const KernelArguments<T>& args, const float* bias,
                                           const float (&sums)[kPixels][kChannels],
                                           PlaceOf place_of) {
#pragma unroll
  for (int i = 0; i < kPixels; ++i) {
    Cell<kChannels> cell;
#pragma unroll
    for (int j = 0; j < kChannels; j += 2) {
      const auto added = *reinterpret_cast<const float2*>(bias + j);
      cell.words[j / 2] = pack<T>({sums[i][j] + added.x, sums[i][j + 1] + added.y});
    }
    const PixelPlace place = place_of(i);
    if (place.exists) store_cell(args.destination + place.at, cell);
  }
}

// Writes activation((sum + bias) * scale + shift + residual) of the pixels that exist, which are
// those at place_of(i).
template <class T, int kPixels, int kChannels, class PlaceOf>
__device__ __forceinline__ void write_fused(const KernelArguments<T>& args, int32_t channel,
                                            float (&sums)[kPixels][kChannels], PlaceOf place_of) {
  const Fusion& fusion = args.fusion;
  {
    float bias[kChannels], scale[kChannels], shift[kChannels];
    load_factors<T>(args.bias, channel, -0.0f, bias);
    load_factors<T>(fusion.scale, channel, 1.0f, scale);
    load_factors<T>(fusion.shift, channel, -0.0f, shift);
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
#pragma unroll
      for (int j = 0; j < kChannels; ++j) {
        sums[i][j] = (sums[i][j] + bias[j]) * scale[j] + shift[j];
      }
    }
  }
  if (fusion.residual != nullptr) {
    Cell<kChannels> residuals[kPixels];
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      const PixelPlace place = place_of(i);
      residuals[i] =
          load_cell<kChannels>(static_cast<const T*>(fusion.residual) + place.at, place.exists);
    }
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
#pragma unroll
      for (int j = 0; j < kChannels / 2; ++j) {
        const float2 added = unpack<T>(residuals[i].words[j]);
        sums[i][2 * j] += added.x;
        sums[i][2 * j + 1] += added.y;
      }
    }
  }
  const auto write = [&](int i, const float (&values)[kChannels], auto activate) {
    const PixelPlace place = place_of(i);
    if (!place.exists) return;
    Cell<kChannels> cell;
#pragma unroll
    for (int j = 0; j < kChannels / 2; ++j) {
      cell.words[j] = pack<T>({activate(values[2 * j]), activate(values[2 * j + 1])});
    }
    store_cell(args.destination + place.at, cell);
  };
  // Unrolled what most networks have; all others' code would be long.
  const auto write_all = [&](auto activate) {
#pragma unroll
    for (int i = 0; i < kPixels; ++i) write(i, sums[i], activate);
  };
  const ActivationKind kind = fusion.activation.kind;
  if (kind == ActivationKind::kNone || kind == ActivationKind::kRelu) {
    const float low = kind == ActivationKind::kRelu ? 0.0f : -INFINITY;
    write_all([=](float value) { return value < low ? low : value; });
  } else if (kind == ActivationKind::kSilu) {
    write_all([](float value) { return value * activations::sigmoid(value); });
  } else {
#pragma unroll 1
    for (int i = 0; i < kPixels; ++i) {
      with_activation(fusion.activation, [&](auto activate) {
#pragma unroll
        for (float& value : sums[0]) value = activate(value);
      });
      write(i, sums[0], [](float value) { return value; });
      // The next pixel takes the first one's place, since registers have no index.
#pragma unroll
      for (int k = 0; k + 1 < kPixels; ++k) {
#pragma unroll
        for (int j = 0; j < kChannels; ++j) sums[k][j] = sums[k + 1][j];
      }
    }
  }
}

}  // namespace haloconv::depthwise_direct
