// Starts the gather kernel: each file instances/gather_*.cu has its instantiations for one tile and
// type.
#pragma once

#include "conv2d/families/halo/instances.h"
#include "conv2d/families/halo/kernel.cuh"
#include "cuda/check.h"

namespace haloconv::sm90 {

template <class T, int kInstructions, int kWidth, bool kSplit, bool kFused, bool kFolds>
void launch_kernel(const Arguments& args, unsigned blocks, cudaStream_t stream) {
  const auto kernel = gather_kernel<T, kInstructions, kWidth, kSplit, kFused, kFolds>;
  // The same at every call: another thread's launch may come between this and ours.
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxShared),
             "cudaFuncSetAttribute");
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
  check_cuda(cudaLaunchKernelEx(&config, kernel, args), "sm90 gather");
}

// Folds have kernels of their own: what undoes the harm of their zeros costs the others time.
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

}  // namespace haloconv::sm90
