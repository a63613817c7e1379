// Launches the kernels whose results the copy engine writes. Each file instances/copied_*.cu
// instantiates one of them.
#pragma once

#include "conv2d/families/halo/copied_instances.h"
#include "conv2d/families/halo/copied_lines_kernel.cuh"
#include "conv2d/families/halo/copied_rows_kernel.cuh"
#include "conv2d/families/halo/flat_lines_kernel.cuh"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::halo {

template <class T>
void launch_copied_lines(const Arguments& args, const CopiedArguments& copied, unsigned blocks,
                         cudaStream_t stream) {
  const auto kernel = copied_lines_kernel<T>;
  allow_shared_bytes(kernel, kMaxShared);
  kernel<<<blocks, kThreads, static_cast<size_t>(shared_bytes(args)), stream>>>(args, copied);
  check_launch("halo copied lines");
}

template <class T>
void launch_flat_lines(const Arguments& args, const FlatArguments& flat, unsigned blocks,
                       cudaStream_t stream) {
  const auto kernel = flat_lines_kernel<T>;
  allow_shared_bytes(kernel, kMaxShared);
  kernel<<<blocks, kThreads, static_cast<size_t>(shared_bytes(args)), stream>>>(args, flat);
  check_launch("halo flat lines");
}

template <class T, int kWidth>
void launch_copied_rows(const Arguments& args, const CUtensorMap& map, unsigned blocks,
                        cudaStream_t stream) {
  const auto kernel = copied_rows_kernel<T, kWidth>;
  allow_shared_bytes(kernel, kMaxShared);
  kernel<<<blocks, kThreads, static_cast<size_t>(shared_bytes(args)), stream>>>(args, map);
  check_launch("halo copied rows");
}

}  // namespace haloconv::halo
