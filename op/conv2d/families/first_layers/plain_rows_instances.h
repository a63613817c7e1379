// The launches of plain_rows.h's kernels, each compiled in a file of its own.
#pragma once

#include "conv2d/families/first_layers/instances.h"
#include "conv2d/families/first_layers/plain_rows.h"

namespace haloconv::sm90::first_layers {

template <int kN>
void launch_plain_rows(const FpropInstance& instance, const CUtensorMap& map,
                       const PlainRowsArguments& args, cudaStream_t stream);

}  // namespace haloconv::sm90::first_layers
