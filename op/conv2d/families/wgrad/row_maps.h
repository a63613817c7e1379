// How the copy engine sees grad_output: as tensors (image, channel, row, column) of each
// row_maps'th row, since it takes only strides of whole 16 bytes.
#pragma once

#include <cuda.h>

#include <optional>

#include "conv2d/families/wgrad/arguments.h"

namespace haloconv::sm90::wgrad {

struct RowMaps {
  CUtensorMap of_row[2];
};

// Sets args.column_shift too. None where the driver makes none of such a tensor.
std::optional<RowMaps> make_row_maps(Arguments& args);

}  // namespace haloconv::sm90::wgrad
