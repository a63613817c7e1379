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
    NonfiniteWatch watch;
    if (args_.cluster_splits == 1) {
#pragma unroll
      for (int i = 0; i < kTile.quads(); ++i) store(i, thread, quad_of(sums, i), watch);
    } else {
      add_in_cluster(sums, thread, watch);
    }
    store_bias(thread);
    // Others may still read this block's sums, or signal to its barriers.
    if (args_.cluster_blocks() > 1) cluster_sync_relaxed();
    repair(watch, thread);
  }

 private:
  // A block adds the quads of its turn. Their order in shared memory is that of partial sums.
  __device__ __forceinline__ void add_in_cluster(const Sums<T, kTile>& sums, int32_t thread,
                                                 NonfiniteWatch& watch) const {
    auto* const quads = reinterpret_cast<float4*>(shared_.ring);
#pragma unroll
    for (int i = 0; i < kTile.quads(); ++i) {
      quads[i * kTile.math_threads() + thread] = quad_of(sums, i);
    }
    cluster_sync();
#pragma unroll 2
    for (int32_t i = place_.split; i < kTile.quads(); i += args_.cluster_splits) {
      const uint32_t own = shared_address_of(quads + i * kTile.math_threads() + thread);
      float4 sum{};
      for (int32_t split = 0; split < args_.cluster_splits; ++split) {
        add(sum, load_shared_4_at(shared_address_at(own, rank_of(split))));
      }
      store(i, thread, sum, watch);
    }
  }

  // Of the block with the same tile and another part of the pixels.
  __device__ __forceinline__ int32_t rank_of(int32_t split) const {
    return split * args_.cluster_tiles + place_.tile;
  }

  static __device__ __forceinline__ float4 quad_of(const Sums<T, kTile>& sums, int i) {
    constexpr int kEights = kTile.n() / 8;
    const float* const four = &sums[i / kEights][i % kEights * 4];
    return {four[0], four[1], four[2], four[3]};
  }

  __device__ __forceinline__ void store(int32_t quad, int32_t thread, const float4& sum,
                                        NonfiniteWatch& watch) const {
    if (partial_ == nullptr) {
      store_quad<T>(args_, first_of_quad(args_, kTile, tile_, thread, quad), sum);
      watch.see(sum);
    } else {
      partial_[quad * kTile.math_threads() + thread] = sum;
    }
  }

  __device__ __forceinline__ void repair(const NonfiniteWatch& watch, int32_t thread) const {
    if (!args_.reaches_beyond || !watch.any()) return;
    NonfiniteRepair<T, Args> repair(args_);
#pragma unroll 1
    for (int32_t i = place_.split; i < kTile.quads(); i += args_.cluster_splits) {
      repair.run_quad(first_of_quad(args_, kTile, tile_, thread, i), true);
    }
  }

  __device__ __forceinline__ void store_bias(int32_t thread) const {
    const int32_t k = tile_.k + thread;
    const bool writes = args_.grad_bias != nullptr && tile_.is_first_of_columns() &&
                        place_.split == 0 && thread < kTile.rows() && k < args_.k;
    if (!writes) return;
    float sum = 0;
#pragma unroll 1
    for (int32_t split = 0; split < args_.cluster_splits; ++split) {
      const uint32_t own = shared_address_of(shared_.bias + thread);
      sum += load_shared_at(shared_address_at(own, rank_of(split)));
    }
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
