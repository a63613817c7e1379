// What the kernel of copied lines needs beside its Arguments.
#pragma once

#include <cuda.h>

#include "conv2d/families/halo/copied_lines.h"

namespace haloconv::halo {

struct CopiedArguments {
  // Of each place of a sector at which planes begin: (pairs of pixels of a line, sector that the
  // line begins with, every 2^shift-th channel, image). Boxes have all that is staged of a channel,
  // which is more than a line has: the engine leaves out what lies outside.
  CUtensorMap maps[kMaxPlaces];
  int32_t before[kMaxPlaces];  // elements of a map before its first channel's first pixel
  LinePlaces places;
};

}  // namespace haloconv::halo
