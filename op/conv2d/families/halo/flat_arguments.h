// What the kernel of flat tiles needs beside its Arguments.
#pragma once

#include <cuda.h>

#include "conv2d/families/halo/flat_lines.h"
#include "conv2d/families/halo/row_order.h"

namespace haloconv::halo {

struct FlatArguments {
  // Of each place of a sector at which planes begin: (words of what a tile writes of a channel,
  // sector that this begins with, every 2^shift-th channel, image). Boxes have all that is staged
  // of a channel, which is more: the engine leaves out what lies outside.
  CUtensorMap maps[kMaxPlaces];
  int32_t before[kMaxPlaces];  // elements of a map before its first channel's first pixel
  LinePlaces places;
  RowOrder rows;
  int32_t row_outputs;
  FastDiv positions_div;  // by a row's positions
};

}  // namespace haloconv::halo
