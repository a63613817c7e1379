// What both kernels of batch norm share: a thread's place, the units that it reads and writes, and
// sums over the threads of a column.
#pragma once

#include <cstdint>

#include "batch_norm/operands.h"
#include "conv2d/device/element.cuh"

namespace haloconv::batch_norm {

// The rows and channels of a thread. Threads beyond the last lane have no rows.
struct Place {
  int32_t unit, lane;  // within the block
  int32_t slice, chunk;
  int64_t channel;     // the first of the unit's
  int64_t first, end;  // rows: every lanes-th of first to end
  int64_t step;        // elements from one of them to the next

  __device__ explicit Place(const Plan& plan) {
    const auto thread = static_cast<int32_t>(threadIdx.x), block = static_cast<int32_t>(blockIdx.x);
    lane = thread / plan.slice_units;
    unit = thread - lane * plan.slice_units;
    chunk = block / plan.slices;
    slice = block - chunk * plan.slices;
    channel = (int64_t{slice} * plan.slice_units + unit) * kUnit;
    const int64_t from = chunk * plan.chunk_rows;
    end = min(from + plan.chunk_rows, plan.rows);
    first = lane < plan.lanes ? from + lane : end;
    step = plan.lanes * plan.channels;
  }

  // How many rows the thread has.
  __device__ int64_t count(const Plan& plan) const {
    return first < end ? (end - first + plan.lanes - 1) / plan.lanes : 0;
  }
  // Of the thread's first unit, from the tensor's begin.
  __device__ int64_t offset(const Plan& plan) const { return first * plan.channels + channel; }
};

template <class T>
__device__ __forceinline__ void load_unit(const T* at, bool exists, uint4& words) {
  words = make_uint4(0, 0, 0, 0);
  if (exists) words = *reinterpret_cast<const uint4*>(at);
}

template <class T>
__device__ __forceinline__ void unpack(const uint4& words, float (&values)[kUnit]) {
  const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < kUnit; ++i) values[i] = Element<T>::value(pairs[i / 2], i % 2);
}

template <class T>
__device__ __forceinline__ uint4 pack(const float (&values)[kUnit]) {
  return make_uint4(Element<T>::pair(values[0], values[1]), Element<T>::pair(values[2], values[3]),
                    Element<T>::pair(values[4], values[5]), Element<T>::pair(values[6], values[7]));
}

// Eight neighbouring floats of a vector of channels; `otherwise` if there is no vector.
__device__ __forceinline__ void load_channels(const float* vector, int64_t channel, float otherwise,
                                              float (&values)[kUnit]) {
#pragma unroll
  for (int i = 0; i < kUnit; ++i) values[i] = vector ? __ldg(vector + channel + i) : otherwise;
}

// A chunk's part of the workspace, (chunks, 2, channels), for the unit's channels.
__device__ __forceinline__ float* partials(void* workspace, const Plan& plan, int64_t chunk,
                                           int64_t channel) {
  return static_cast<float*>(workspace) + chunk * 2 * plan.channels + channel;
}

// By way of L2: other multiprocessors have written them.
__device__ __forceinline__ void read_partials(const float* at, float (&values)[kUnit]) {
  const float4 low = __ldcg(reinterpret_cast<const float4*>(at));
  const float4 high = __ldcg(reinterpret_cast<const float4*>(at) + 1);
  const float all[kUnit] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < kUnit; ++i) values[i] = all[i];
}

__device__ __forceinline__ void write_channels(float* at, const float (&values)[kUnit]) {
  reinterpret_cast<float4*>(at)[0] = make_float4(values[0], values[1], values[2], values[3]);
  reinterpret_cast<float4*>(at)[1] = make_float4(values[4], values[5], values[6], values[7]);
}

inline constexpr int kRadix = 4;  // lanes whose parts one of them takes at once
inline constexpr int kSenders = kThreads / kRadix * (kRadix - 1);

// Combines what the lanes of each column have, Statistics or GradientSums, in a fixed order; lane 0
// of the column then has all. Every thread of the block calls it.
template <class Part>
__device__ void combine_lanes(const Plan& plan, const Place& place, Part& part) {
  __shared__ float handed[Part::kFloats][kSenders];
  const auto thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t count = plan.lanes; count > 1;) {
    const int32_t left = (count + kRadix - 1) / kRadix, units = left * plan.slice_units;
    if (place.lane >= left && place.lane < count) {
      part.for_each([&](int i, float& value) { handed[i][thread - units] = value; });
    }
    __syncthreads();
    for (int r = 1; r < kRadix; ++r) {
      if (place.lane >= left || place.lane + r * left >= count) break;
      Part other;
      const int32_t from = thread + (r - 1) * units;
      other.for_each([&](int i, float& value) { value = handed[i][from]; });
      part.add(other);
    }
    __syncthreads();
    count = left;
  }
}

inline constexpr int kChunksAtOnce = 3;  // partial results of a thread that are under way

// What all chunks together have; lane 0 of each column gets it.
template <class Part>
__device__ Part combine_chunks(const Plan& plan, const Place& place, void* workspace) {
  Part result;
  for (int32_t chunk = place.lane; chunk < plan.chunks; chunk += kChunksAtOnce * plan.lanes) {
    if (place.lane >= plan.lanes) break;
    Part others[kChunksAtOnce];
#pragma unroll
    for (int i = 0; i < kChunksAtOnce; ++i) {
      const int32_t other = chunk + i * plan.lanes;
      if (other < plan.chunks) others[i].read(plan, place, workspace, other);
    }
#pragma unroll
    for (int i = 0; i < kChunksAtOnce; ++i) result.add(others[i]);
  }
  combine_lanes(plan, place, result);
  return result;
}

// Values of lane 0 for all lanes of its column.
template <int kVectors>
__device__ void share_with_lanes(const Plan& plan, const Place& place,
                                 float (&vectors)[kVectors][kUnit]) {
  __shared__ float shared[kVectors * kUnit][kThreads / 16];  // a slice has 32 units at most
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      if (place.lane == 0) shared[v * kUnit + i][place.unit] = vectors[v][i];
    }
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) vectors[v][i] = shared[v * kUnit + i][place.unit];
  }
}

}  // namespace haloconv::batch_norm
