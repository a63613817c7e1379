// What the kernel of copied lines needs beside its Arguments.
#pragma once

#include <cuda.h>

#include "conv2d/families/halo/copied_lines.h"

namespace haloconv::halo {

struct CopiedArguments {
  // Of each place of a sector at which planes begin: boxes of (pixels of a plane, every 2^shift-th
  // channel, image), of what a warp has inside.
  CUtensorMap maps[kMaxPlaces];
  int32_t before[kMaxPlaces];  // elements of a map before its first channel's first pixel
  LinePlaces places;
};

}  // namespace haloconv::halo
