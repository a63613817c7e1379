// The kernels' launches, each compiled in a file of its own.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "conv2d/families/first_layers/arguments.h"
#include "conv2d/families/first_layers/dgrad_arguments.h"

namespace haloconv::sm90::first_layers {

inline constexpr int64_t kMostSharedBytes = 224 * 1024;

struct FpropInstance {
  DataType type;
  bool fused;  // with bias, scale, shift, residual or activation
  int64_t shared_bytes;
};

// fprop's kRows, and kRowsInnermost: whether the output's rows are innermost.
template <int kN, bool kRows>
void launch_fprop(const FpropInstance& instance, const FpropArguments& args, cudaStream_t stream);

template <int kColumns, int kRows, bool kRowsInnermost>
void launch_wgrad(DataType type, const CUtensorMap& map, const WgradArguments& args,
                  int64_t shared_bytes, cudaStream_t stream);

template <int kRows, int kChannels, bool kRowsInnermost, int kBlocks = 1>
void launch_dgrad(DataType type, const CUtensorMap& map, const DgradArguments& args, int64_t blocks,
                  int64_t shared_bytes, cudaStream_t stream);

// Of float32, with channels innermost.
template <int kRows, int kChannels>
void launch_dgrad_tf32(const CUtensorMap& map, const DgradArguments& args, int64_t blocks,
                       int64_t shared_bytes, cudaStream_t stream);

// Adds the runs' sums, `columns` x `rows` for each thread, and rounds them.
void launch_add_runs(DataType type, const WgradArguments& args, int32_t columns, int32_t rows,
                     cudaStream_t stream);

}  // namespace haloconv::sm90::first_layers
