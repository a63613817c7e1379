// How the copy engine sees grad_output: as tensors (image, channel, row, column) of each
// row_maps'th row, since it takes only strides of whole 16 bytes.
#pragma once

#include <cuda.h>

#include "conv2d/sm90/wgrad/arguments.h"

namespace haloconv::sm90::wgrad {

struct RowMaps {
  CUtensorMap of_row[2];
};

// Sets args.column_shift too. Throws std::runtime_error where the driver has no tensor maps.
RowMaps make_row_maps(Arguments& args);

}  // namespace haloconv::sm90::wgrad
