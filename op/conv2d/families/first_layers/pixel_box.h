// Output pixels that a kernel multiplies at a time, some of which grad_output may not have.
#pragma once

#include <cstdint>

namespace haloconv::sm90::first_layers {

// The first, and how many along each axis.
struct PixelBox {
  int32_t n, p, q;
  int32_t images, rows, columns;
};

}  // namespace haloconv::sm90::first_layers
