// Launches the kernel. Each file instances/halo_*.cu instantiates it for one tile and type.
#pragma once

#include "conv2d/families/halo/instances.h"
#include "conv2d/families/halo/kernel.cuh"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::halo {

template <class T, int kInstructions, int kWidth, bool kSplit, bool kFused, bool kFolds>
void launch_kernel(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  const auto kernel = halo_kernel<T, kInstructions, kWidth, kSplit, kFused, kFolds>;
  allow_shared_bytes(kernel, kMaxShared);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(args.splits), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = kThreads;
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes(args));
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  check_cuda(cudaLaunchKernelEx(&config, kernel, args), "halo");
}

// Folds have kernels of their own, because the search for NaN would slow the others down.
template <class T, int kInstructions, int kWidth, bool kSplit, bool kFused>
void launch_folds_apart(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  if (args.folded.count > 1) {
    launch_kernel<T, kInstructions, kWidth, kSplit, kFused, true>(args, blocks, stream);
  } else {
    launch_kernel<T, kInstructions, kWidth, kSplit, kFused, false>(args, blocks, stream);
  }
}

template <class T, int kInstructions, int kWidth>
void launch_instance(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  if constexpr (may_split(kInstructions, kWidth)) {
    if (args.splits > 1) {
      return launch_folds_apart<T, kInstructions, kWidth, true, false>(args, blocks, stream);
    }
  }
  launch_folds_apart<T, kInstructions, kWidth, false, false>(args, blocks, stream);
}

template <int kInstructions, int kWidth>
void launch_fused_instance(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  launch_folds_apart<float, kInstructions, kWidth, false, true>(args, blocks, stream);
}

}  // namespace haloconv::halo
