// The filter as fprop's second operand in shared memory: for each filter row and group of taps, the
// output channels' units, 16 bytes each. Two groups fill an instruction's depth.
#pragma once

#include "conv2d/families/first_layers/arguments.h"

namespace haloconv::sm90::first_layers {

// The element of the filter at a place of the image, for tiles of `kN` channels.
struct FilterPlace {
  int32_t channel, r, s, c;  // channel in the tile; a zero if s or c is beyond the filter

  HALOCONV_HOST_DEVICE FilterPlace(const UnitRow& units, int32_t tile_channels, int32_t index) {
    const int32_t element = index % units.elements, above = index / units.elements;
    channel = above % tile_channels;
    const int32_t group = above / tile_channels % units.groups;
    r = above / tile_channels / units.groups;
    const TapGroup& of = units.group[group];
    const int32_t pixel = units.pixel_of(element);
    c = units.channel_of(element);
    s = pixel < of.taps ? of.tap + pixel : -1;
  }
  HALOCONV_HOST_DEVICE bool exists(const UnitRow& units) const {
    return s >= 0 && c < units.channels;
  }
};

inline int64_t filter_image_bytes(const UnitRow& units, int64_t r, int64_t tile_channels) {
  return r * units.groups * tile_channels * kUnitBytes;
}

}  // namespace haloconv::sm90::first_layers
