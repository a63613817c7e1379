// The launches of plain_rows.h's and plain_wgrad.h's kernels, each compiled in a file of its own.
#pragma once

#include "conv2d/families/first_layers/instances.h"
#include "conv2d/families/first_layers/plain_wgrad.h"

namespace haloconv::sm90::first_layers {

template <int kN>
void launch_plain_rows(const FpropInstance& instance, const CUtensorMap& map,
                       const PlainRowsArguments& args, cudaStream_t stream);

template <int kChunks>
void launch_plain_wgrad(DataType type, const CUtensorMap& rows_map,
                        const CUtensorMap& grad_output_map, const PlainWgradArguments& args,
                        int64_t shared_bytes, cudaStream_t stream);

// launch_add_runs() for plain_wgrad.h.
void launch_add_plain_runs(DataType type, const PlainWgradArguments& args, cudaStream_t stream);

}  // namespace haloconv::sm90::first_layers
