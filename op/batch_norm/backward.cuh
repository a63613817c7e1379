// The backward kernel: each block sums up the gradients of its rows, all blocks wait for each
// other, and each writes the input's gradient for the rows that it has read, the last ones first.
//
// The gradient of what is before the activation is computed from what forward was given. If that
// takes more than input and gradient, it is written in the first pass, where grad_residual or
// grad_input will be, and read in the second.
#pragma once

#include <cooperative_groups.h>

#include "batch_norm/activation.cuh"
#include "batch_norm/units.cuh"

namespace haloconv::batch_norm {

// Of each channel of a unit: sums of gradients, and of their products with the input's distance
// from its mean.
struct GradientSums {
  static constexpr int kFloats = 2 * kUnit;

  float plain[kUnit] = {}, products[kUnit] = {};

  template <class Visit>
  __device__ __forceinline__ void for_each(Visit visit) {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      visit(i, plain[i]);
      visit(kUnit + i, products[i]);
    }
  }

  __device__ __forceinline__ void add(const GradientSums& other) {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      plain[i] += other.plain[i];
      products[i] += other.products[i];
    }
  }

  // A chunk's partial result.
  __device__ __forceinline__ void read(const Plan& plan, const Place& place, void* workspace,
                                       int32_t chunk) {
    const float* const part = partials(workspace, plan, chunk, place.channel);
    read_partials(part, plain);
    read_partials(part + plan.channels, products);
  }
};

// What forward computed a unit of results with.
struct Normalization {
  float mean[kUnit], scale[kUnit], bias[kUnit];

  __device__ __forceinline__ Normalization(const Place& place, const Backward& operands) {
    float weight[kUnit];
    load_channels(operands.mean, place.channel, 0, mean);
    load_channels(operands.invstd, place.channel, 0, scale);
    load_channels(operands.weight, place.channel, 1, weight);
    load_channels(operands.bias, place.channel, 0, bias);
#pragma unroll
    for (int i = 0; i < kUnit; ++i) scale[i] *= weight[i];
  }
};

inline constexpr int kBackwardAtOnce = 8;  // units of a thread that are under way

template <class T, ActivationKind kActivation, bool kResidual, bool kSecond>
__device__ GradientSums sum_gradients(const Plan& plan, const Place& place,
                                      const Backward& operands, const Normalization& known,
                                      T* written) {
  constexpr int kAtOnce = kBackwardAtOnce / (2 + (kResidual || kSecond ? 2 : 0));
  const int64_t count = place.count(plan), offset = place.offset(plan);
  const T* const input = static_cast<const T*>(operands.input) + offset;
  const T* const gradient = static_cast<const T*>(operands.gradient) + offset;
  const T* const second = static_cast<const T*>(operands.second_gradient) + offset;
  const T* const residual = static_cast<const T*>(operands.residual) + offset;
  GradientSums sums;
  for (int64_t i = 0; i < count; i += kAtOnce) {
    uint4 inputs[kAtOnce], gradients[kAtOnce], seconds[kAtOnce], residuals[kAtOnce];
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      const bool exists = i + r < count;
      const int64_t at = (i + r) * place.step;
      load_unit(input + at, exists, inputs[r]);
      load_unit(gradient + at, exists, gradients[r]);
      if constexpr (kSecond) load_unit(second + at, exists, seconds[r]);
      if constexpr (kResidual) load_unit(residual + at, exists, residuals[r]);
    }
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (i + r >= count) break;
      float values[kUnit], slopes[kUnit], more[kUnit];
      unpack<T>(inputs[r], values);
      unpack<T>(gradients[r], slopes);
      if constexpr (kSecond) {
        unpack<T>(seconds[r], more);
#pragma unroll
        for (int c = 0; c < kUnit; ++c) slopes[c] += more[c];
      }
      if constexpr (kResidual) unpack<T>(residuals[r], more);
#pragma unroll
      for (int c = 0; c < kUnit; ++c) {
        values[c] -= known.mean[c];
        float z = values[c] * known.scale[c] + known.bias[c];
        if constexpr (kResidual) z += more[c];
        slopes[c] = activate_backward<kActivation>(slopes[c], z);
      }
      if constexpr (kResidual || kSecond) {
        const uint4 rounded = pack<T>(slopes);
        *reinterpret_cast<uint4*>(written + offset + (i + r) * place.step) = rounded;
        unpack<T>(rounded, slopes);  // the second pass reads these
      }
#pragma unroll
      for (int c = 0; c < kUnit; ++c) {
        sums.plain[c] += slopes[c];
        sums.products[c] += slopes[c] * values[c];
      }
    }
  }
  return sums;
}

template <class T, ActivationKind kActivation, bool kResidual, bool kSecond>
__global__ void __launch_bounds__(kThreads, 1)
    batch_norm_backward(const __grid_constant__ Plan plan,
                        const __grid_constant__ Backward operands) {
  constexpr bool kWritten = kResidual || kSecond;
  const Place place(plan);
  T* const written =
      static_cast<T*>(operands.grad_residual ? operands.grad_residual : operands.grad_input);
  const Normalization known(place, operands);

  auto part =
      sum_gradients<T, kActivation, kResidual, kSecond>(plan, place, operands, known, written);
  combine_lanes(plan, place, part);
  if (place.lane == 0) {
    float* const to = partials(operands.workspace, plan, place.chunk, place.channel);
    write_channels(to, part.plain);
    write_channels(to + plan.channels, part.products);
  }
  cooperative_groups::this_grid().sync();

  // The input's gradient is gradient * scale + distance * factor + constant.
  const auto all = combine_chunks<GradientSums>(plan, place, operands.workspace);
  float vectors[2][kUnit];
  if (place.lane == 0) {
    float invstd[kUnit], grad_weight[kUnit];
    load_channels(operands.invstd, place.channel, 0, invstd);
    const float share = 1.0f / static_cast<float>(plan.rows);
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      grad_weight[i] = all.products[i] * invstd[i];
      vectors[0][i] = -known.scale[i] * invstd[i] * grad_weight[i] * share;
      vectors[1][i] = -known.scale[i] * all.plain[i] * share;
    }
    if (place.chunk == 0) {
      if (operands.grad_weight) write_channels(operands.grad_weight + place.channel, grad_weight);
      if (operands.grad_bias) write_channels(operands.grad_bias + place.channel, all.plain);
    }
  }
  share_with_lanes(plan, place, vectors);
  if (place.lane >= plan.lanes) return;
  const auto& [factor, constant] = vectors;

  constexpr int kAtOnce = kBackwardAtOnce / 2;
  const int64_t count = place.count(plan), offset = place.offset(plan);
  const T* const input = static_cast<const T*>(operands.input) + offset;
  const T* const gradient =
      (kWritten ? written : static_cast<const T*>(operands.gradient)) + offset;
  T* const to = static_cast<T*>(operands.grad_input) + offset;
  for (int64_t i = (count - 1) / kAtOnce * kAtOnce; i >= 0; i -= kAtOnce) {
    uint4 inputs[kAtOnce], gradients[kAtOnce];
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      const bool exists = i + r < count;
      load_unit(input + (i + r) * place.step, exists, inputs[r]);
      load_unit(gradient + (i + r) * place.step, exists, gradients[r]);
    }
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (i + r >= count) break;
      float values[kUnit], slopes[kUnit];
      unpack<T>(inputs[r], values);
      unpack<T>(gradients[r], slopes);
#pragma unroll
      for (int c = 0; c < kUnit; ++c) {
        const float apart = values[c] - known.mean[c];
        if constexpr (!kWritten) {
          slopes[c] =
              activate_backward<kActivation>(slopes[c], apart * known.scale[c] + known.bias[c]);
        }
        values[c] = slopes[c] * known.scale[c] + (apart * factor[c] + constant[c]);
      }
      *reinterpret_cast<uint4*>(to + (i + r) * place.step) = pack<T>(values);
    }
  }
}

}  // namespace haloconv::batch_norm
