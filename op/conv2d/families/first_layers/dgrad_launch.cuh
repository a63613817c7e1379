// Starts dgrad's kernels: each file of instances has those of one shape.
#pragma once

#include "conv2d/families/first_layers/dgrad_kernel.cuh"
#include "conv2d/families/first_layers/instances.h"
#include "cuda/dependent_launch.cuh"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::sm90::first_layers {

template <int kGroups, class Kernel>
void start_dgrad(Kernel kernel, const CUtensorMap& map, const DgradArguments& args, int64_t blocks,
                 int64_t shared_bytes, cudaStream_t stream) {
  allow_shared_bytes(kernel, kMostSharedBytes);
  launch_dependent(kernel, static_cast<unsigned>(blocks), kDgradThreads<kGroups>, shared_bytes,
                   stream, "sm90 first_layers dgrad", map, args);
}

template <int kRows, int kChannels, bool kRowsInnermost, int kBlocks>
void launch_dgrad(DataType type, const CUtensorMap& map, const DgradArguments& args, int64_t blocks,
                  int64_t shared_bytes, cudaStream_t stream) {
  constexpr int kGroups = dgrad_groups({kRows, kChannels, kBlocks}, 2);
  const auto start = [&](auto kernel) {
    start_dgrad<kGroups>(kernel, map, args, blocks, shared_bytes, stream);
  };
  if (type == DataType::kFloat16) {
    start(dgrad_kernel<__half, kRows, kChannels, kBlocks, kGroups, kRowsInnermost>);
  } else {
    start(dgrad_kernel<__nv_bfloat16, kRows, kChannels, kBlocks, kGroups, kRowsInnermost>);
  }
}

template <int kRows, int kChannels>
void launch_dgrad_tf32(const CUtensorMap& map, const DgradArguments& args, int64_t blocks,
                       int64_t shared_bytes, cudaStream_t stream) {
  constexpr int kGroups = dgrad_groups({kRows, kChannels}, 4);
  start_dgrad<kGroups>(dgrad_kernel<float, kRows, kChannels, 1, kGroups, false>, map, args, blocks,
                       shared_bytes, stream);
}

}  // namespace haloconv::sm90::first_layers
