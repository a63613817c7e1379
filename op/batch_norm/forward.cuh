// The forward kernel: each block sums up its rows, all blocks wait for each other, and each writes
// the results of the rows that it has read, the last ones first, because these are still in the
// caches.
#pragma once

#include <cooperative_groups.h>

#include "batch_norm/activation.cuh"
#include "batch_norm/units.cuh"

namespace haloconv::batch_norm {

// Of each channel of a unit: the mean of some values and the sum of their squared distances from
// it. No difference of large squares is ever taken.
struct Statistics {
  static constexpr int kFloats = 2 * kUnit + 1;

  float count = 0;
  float mean[kUnit] = {}, squares[kUnit] = {};

  template <class Visit>
  __device__ __forceinline__ void for_each(Visit visit) {
    visit(0, count);
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      visit(1 + i, mean[i]);
      visit(1 + kUnit + i, squares[i]);
    }
  }

  __device__ __forceinline__ void add(const Statistics& other) {
    const float all = count + other.count;
    const float share = all > 0 ? other.count / all : 0;
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      const float apart = other.mean[i] - mean[i];
      mean[i] += apart * share;
      squares[i] += other.squares[i] + apart * apart * (share * count);
    }
    count = all;
  }

  // A chunk's partial result.
  __device__ __forceinline__ void read(const Plan& plan, const Place& place, void* workspace,
                                       int32_t chunk) {
    const float* const part = partials(workspace, plan, chunk, place.channel);
    read_partials(part, mean);
    read_partials(part + plan.channels, squares);
    count = static_cast<float>(min(plan.chunk_rows, plan.rows - chunk * plan.chunk_rows));
  }
};

inline constexpr int kForwardAtOnce = 8;  // rows of a thread that are under way

// Of the thread's own rows, as sums of distances from its first value.
template <class T>
__device__ Statistics statistics_of_rows(const Plan& plan, const Place& place, const T* input) {
  float pivot[kUnit], sum[kUnit] = {}, squares[kUnit] = {};
  const int64_t count = place.count(plan);
  const T* const begin = input + place.offset(plan);
  for (int64_t i = 0; i < count; i += kForwardAtOnce) {
    uint4 words[kForwardAtOnce];
#pragma unroll
    for (int r = 0; r < kForwardAtOnce; ++r) {
      load_unit(begin + (i + r) * place.step, i + r < count, words[r]);
    }
    if (i == 0) unpack<T>(words[0], pivot);
#pragma unroll
    for (int r = 0; r < kForwardAtOnce; ++r) {
      if (i + r >= count) break;
      float values[kUnit];
      unpack<T>(words[r], values);
#pragma unroll
      for (int c = 0; c < kUnit; ++c) {
        const float apart = values[c] - pivot[c];
        sum[c] += apart;
        squares[c] += apart * apart;
      }
    }
  }
  Statistics result;
  if (count == 0) return result;
  result.count = static_cast<float>(count);
#pragma unroll
  for (int c = 0; c < kUnit; ++c) {
    const float mean = sum[c] / result.count;
    result.mean[c] = pivot[c] + mean;
    result.squares[c] = squares[c] - sum[c] * mean;
  }
  return result;
}

// The running statistics and those that backward needs.
__device__ inline void keep_statistics(const Place& place, const Forward& operands,
                                       const Statistics& all) {
  float invstd[kUnit];
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    const int64_t channel = place.channel + i;
    invstd[i] = rsqrtf(all.squares[i] / all.count + operands.eps);
    if (operands.running_mean != nullptr) {
      float& mean = operands.running_mean[channel];
      mean += operands.momentum * (all.mean[i] - mean);
    }
    if (operands.running_var != nullptr) {
      float& var = operands.running_var[channel];
      var += operands.momentum * (all.squares[i] / (all.count - 1) - var);
    }
  }
  write_channels(operands.mean + place.channel, all.mean);
  write_channels(operands.invstd + place.channel, invstd);
}

template <class T, ActivationKind kActivation, bool kResidual>
__global__ void __launch_bounds__(kThreads, 1)
    batch_norm_forward(const __grid_constant__ Plan plan,
                       const __grid_constant__ Forward operands) {
  const Place place(plan);
  const auto* const input = static_cast<const T*>(operands.input);
  float weight[kUnit], bias[kUnit];  // loaded here, because it takes long
  load_channels(operands.weight, place.channel, 1, weight);
  load_channels(operands.bias, place.channel, 0, bias);

  Statistics part = statistics_of_rows(plan, place, input);
  combine_lanes(plan, place, part);
  if (place.lane == 0) {
    float* const to = partials(operands.workspace, plan, place.chunk, place.channel);
    write_channels(to, part.mean);
    write_channels(to + plan.channels, part.squares);
  }
  cooperative_groups::this_grid().sync();

  const auto all = combine_chunks<Statistics>(plan, place, operands.workspace);
  float vectors[2][kUnit];  // mean, and what the distance from it is multiplied by
  if (place.lane == 0) {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      vectors[0][i] = all.mean[i];
      vectors[1][i] = rsqrtf(all.squares[i] / all.count + operands.eps) * weight[i];
    }
  }
  share_with_lanes(plan, place, vectors);
  if (place.lane >= plan.lanes) return;
  if (place.lane == 0 && place.chunk == 0) keep_statistics(place, operands, all);
  const auto& [mean, scale] = vectors;

  constexpr int kAtOnce = kResidual ? kForwardAtOnce / 2 : kForwardAtOnce;
  const int64_t count = place.count(plan), offset = place.offset(plan);
  const T* const from = input + offset;
  const T* const residual = static_cast<const T*>(operands.residual) + offset;
  T* const to = static_cast<T*>(operands.result) + offset;
  for (int64_t i = (count - 1) / kAtOnce * kAtOnce; i >= 0; i -= kAtOnce) {
    uint4 words[kAtOnce], residuals[kResidual ? kAtOnce : 1];
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      const bool exists = i + r < count;
      load_unit(from + (i + r) * place.step, exists, words[r]);
      if constexpr (kResidual) load_unit(residual + (i + r) * place.step, exists, residuals[r]);
    }
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (i + r >= count) break;
      float values[kUnit], added[kUnit] = {};
      unpack<T>(words[r], values);
      if constexpr (kResidual) unpack<T>(residuals[r], added);
#pragma unroll
      for (int c = 0; c < kUnit; ++c) {
        float z = (values[c] - mean[c]) * scale[c] + bias[c];
        if constexpr (kResidual) z += added[c];
        values[c] = activate<kActivation>(z);
      }
      *reinterpret_cast<uint4*>(to + (i + r) * place.step) = pack<T>(values);
    }
  }
}

}  // namespace haloconv::batch_norm
