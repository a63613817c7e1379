// A tile's sums leave the block: added to those of the cluster's other blocks, whose parts of the
// pixels are others, and rounded to the filter's gradient, or as partial sums of an outer split.
#pragma once

#include "conv2d/device/sum_partials.cuh"
#include "conv2d/families/channels_last_wgrad/filter_elements.cuh"
#include "conv2d/families/channels_last_wgrad/mainloop.cuh"
#include "cuda/cluster.cuh"

namespace haloconv::sm90::channels_last_wgrad {

// The cluster's barrier takes all threads; those without sums arrive as often as the others.
__device__ __forceinline__ void attend_epilogue(const Arguments& args) {
  if (args.cluster_splits > 1) cluster_sync();
  if (args.cluster_blocks() > 1) cluster_sync_relaxed();
}

// Where four lanes have two neighbouring quads of the same two rows each, every lane gets the eight
// channels of one row of one quad, 16 bytes, and stores them. `first`: of the first quad.
template <class T>
__device__ __forceinline__ void store_two_quads(const Arguments& args, const FilterElement& first,
                                                const float4& one, const float4& other) {
  const bool odd = threadIdx.x % 2 != 0, upper = threadIdx.x % 4 >= 2;
  const uint32_t words[4] = {Element<T>::pair(one.x, one.y), Element<T>::pair(other.x, other.y),
                             Element<T>::pair(one.z, one.w), Element<T>::pair(other.z, other.w)};
  // Between neighbours: one keeps the first quad, the other the second.
  const uint32_t first_row = __shfl_xor_sync(~0u, odd ? words[0] : words[1], 1);
  const uint32_t second_row = __shfl_xor_sync(~0u, odd ? words[2] : words[3], 1);
  const uint32_t low[2] = {odd ? first_row : words[0], odd ? words[1] : first_row};
  const uint32_t high[2] = {odd ? second_row : words[2], odd ? words[3] : second_row};
  // Between pairs: one keeps the first row, the other the second.
  const uint32_t left = __shfl_xor_sync(~0u, upper ? low[0] : high[0], 2);
  const uint32_t right = __shfl_xor_sync(~0u, upper ? low[1] : high[1], 2);
  FilterElement own = first;
  own.k += upper ? 8 : 0;
  own.c += (odd ? 8 : 0) - static_cast<int32_t>(threadIdx.x) % 4 * 2;
  if (own.k >= args.k || own.c >= args.c || own.s >= args.s || own.r >= args.r) return;
  *reinterpret_cast<uint4*>(static_cast<T*>(args.grad_filter) + args.filter_offset(own)) =
      upper ? uint4{left, right, high[0], high[1]} : uint4{low[0], low[1], left, right};
}

template <class T, class Args, Tile kTile>
class Epilogue {
 public:
  __device__ __forceinline__ Epilogue(const Args& args, const Shared<kTile>& shared,
                                      const ClusterPlace& place, const TilePosition& tile,
                                      int32_t tile_index, int32_t outer_split)
      : args_(args), shared_(shared), place_(place), tile_(tile) {
    if (args.outer_splits == 1) return;
    partial_ = reinterpret_cast<float4*>(args.partial) +
               (int64_t{outer_split} * args.tiles + tile_index) * (kTile.values() / 4);
    bias_partial_ = args.bias_partial + int64_t{outer_split} * args.k;
  }

  __device__ __forceinline__ void run(const Sums<T, kTile>& sums) const {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    if (args_.cluster_splits == 1) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        store({i, thread}, quad_of(sums, 2 * i), quad_of(sums, 2 * i + 1));
      }
    } else {
      write(sums, thread);
      cluster_sync();
      if (args_.cluster_splits == 2) {
        add_in_cluster<4, 2>();
      } else if (args_.cluster_splits <= 4) {
        add_in_cluster<2, 4>();
      } else {
        add_in_cluster<1, kMostClusterBlocks>();
      }
    }
    store_bias(thread);
    // Others may still read this block's sums, or signal to its barriers.
    if (args_.cluster_blocks() > 1) cluster_sync_relaxed();
  }

 private:
  static constexpr int kPairs = kTile.quads() / 2;  // of neighbouring quads, of a thread
  static constexpr int kWarps = kTile.math_threads() / 32;
  static_assert(kTile.quads() % 2 == 0);

  // A pair of quads, and the thread that holds its sums.
  struct PairPlace {
    int32_t pair, thread;
  };

  // Their order in shared memory is that of partial sums.
  __device__ __forceinline__ void write(const Sums<T, kTile>& sums, int32_t thread) const {
    auto* const quads = reinterpret_cast<float4*>(shared_.ring);
#pragma unroll
    for (int i = 0; i < kTile.quads(); ++i) {
      quads[i * kTile.math_threads() + thread] = quad_of(sums, i);
    }
  }

  // A warp's pairs, which warps and blocks take in turns.
  __device__ __forceinline__ int32_t first_turn() const {
    return place_.split + static_cast<int32_t>(threadIdx.x) / 32 * args_.cluster_splits;
  }
  __device__ __forceinline__ int32_t turn_step() const { return kWarps * args_.cluster_splits; }
  static __device__ __forceinline__ PairPlace pair_of(int32_t turn) {
    return {turn / kWarps, turn % kWarps * 32 + static_cast<int32_t>(threadIdx.x) % 32};
  }

  // With the loads of several pairs, from several blocks, on their way: one after another they
  // took 1.3 to 3 us. Each block begins with its own sums, so that not all read the same block's.
  template <int kAtOnce, int kBlocks>
  __device__ __forceinline__ void add_in_cluster() const {
#pragma unroll 1
    for (int32_t turn = first_turn(); turn < kPairs * kWarps; turn += kAtOnce * turn_step()) {
      float4 sums[kAtOnce][2] = {};
      float4 loaded[kBlocks][kAtOnce][2];
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) load(turn + i * turn_step(), j, loaded[j][i]);
      }
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          add(sums[i][0], loaded[j][i][0]);
          add(sums[i][1], loaded[j][i][1]);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int32_t own = turn + i * turn_step();
        if (own < kPairs * kWarps) store(pair_of(own), sums[i][0], sums[i][1]);
      }
    }
  }

  // A pair's sums of the block with the same tile and the part of the pixels that is so many
  // further on.
  __device__ __forceinline__ void load(int32_t turn, int32_t further, float4 (&sums)[2]) const {
    const bool exists = turn < kPairs * kWarps && further < args_.cluster_splits;
    const int32_t split = place_.split + further;
    const int32_t from = split < args_.cluster_splits ? split : split - args_.cluster_splits;
    const PairPlace place = pair_of(turn);
    constexpr uint32_t kQuadBytes = kTile.math_threads() * sizeof(float4);
    const uint32_t own = shared_address_of(shared_.ring) +
                         2 * static_cast<uint32_t>(place.pair) * kQuadBytes +
                         static_cast<uint32_t>(place.thread * sizeof(float4));
    const uint32_t at = shared_address_at(own, exists ? rank_of(from) : 0);
    sums[0] = load_shared_4_or_zeros(at, exists);
    sums[1] = load_shared_4_or_zeros(at + kQuadBytes, exists);
  }

  __device__ __forceinline__ int32_t rank_of(int32_t split) const {
    return split * args_.cluster_tiles + place_.tile;
  }

  static __device__ __forceinline__ float4 quad_of(const Sums<T, kTile>& sums, int i) {
    constexpr int kEights = kTile.n() / 8;
    const float* const four = &sums[i / kEights][i % kEights * 4];
    return {four[0], four[1], four[2], four[3]};
  }

  __device__ __forceinline__ FilterElement first_of(const PairPlace& place, int32_t quad) const {
    return first_of_quad(args_, kTile, tile_, place.thread, 2 * place.pair + quad);
  }

  // By a whole warp.
  __device__ __forceinline__ void store(const PairPlace& place, const float4& one,
                                        const float4& other) const {
    if (partial_ == nullptr) {
      store_two_quads<T>(args_, first_of(place, 0), one, other);
    } else {
      float4* const to = partial_ + 2 * place.pair * kTile.math_threads() + place.thread;
      to[0] = one;
      to[kTile.math_threads()] = other;
    }
  }

  __device__ __forceinline__ void store_bias(int32_t thread) const {
    const int32_t k = tile_.k + thread;
    const bool writes = args_.grad_bias != nullptr && tile_.is_first_of_columns() &&
                        place_.split == 0 && thread < kTile.rows() && k < args_.k;
    if (!writes) return;
    const uint32_t own = shared_address_of(shared_.bias + thread);
    float sums[kMostClusterBlocks];
#pragma unroll
    for (int32_t split = 0; split < kMostClusterBlocks; ++split) {
      const bool exists = split < args_.cluster_splits;
      sums[split] =
          load_shared_or_zero(shared_address_at(own, exists ? rank_of(split) : 0), exists);
    }
    float sum = 0;
#pragma unroll
    for (const float other : sums) sum += other;
    if (partial_ == nullptr) {
      static_cast<T*>(args_.grad_bias)[k] = T(sum);
    } else {
      bias_partial_[k] = sum;
    }
  }

  const Args& args_;
  const Shared<kTile>& shared_;
  const ClusterPlace& place_;
  const TilePosition& tile_;
  float4* partial_ = nullptr;  // null: the results are whole
  float* bias_partial_ = nullptr;
};

}  // namespace haloconv::sm90::channels_last_wgrad
