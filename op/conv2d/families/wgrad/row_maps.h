// How the copy engine sees grad_output. It takes only strides that are multiples of 16 bytes, so
// there may be two tensors (image, channel, row, column), one of the even rows and one of the odd.
#pragma once

#include <cuda.h>

#include <optional>

#include "conv2d/families/wgrad/arguments.h"

namespace haloconv::wgrad {

struct RowMaps {
  CUtensorMap of_row[2];
};

// Sets args.column_shift too. None where the driver makes none of such a tensor.
std::optional<RowMaps> make_row_maps(Arguments& args);

}  // namespace haloconv::wgrad
