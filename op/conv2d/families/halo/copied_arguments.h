// What the kernel needs beside its Arguments where the copy engine writes results.
#pragma once

#include <cuda.h>

#include "conv2d/families/halo/copied_lines.h"
#include "conv2d/families/halo/source_bands.h"

namespace haloconv::halo {

struct CopiedArguments {
  // Of each place of a sector at which planes begin: boxes of (pixels of a plane, every 2^shift-th
  // channel, image), of what a warp has inside.
  CUtensorMap maps[kMaxPlaces];
  int32_t before[kMaxPlaces];  // elements of a map before its first channel's first pixel
  LinePlaces places;
  BandArguments bands;
};

}  // namespace haloconv::halo
