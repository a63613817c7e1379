// The element of the filter's gradient that one of a wgrad thread's sums is.
#pragma once

#include "conv2d/families/first_layers/arguments.h"

namespace haloconv::sm90::first_layers {

struct SumPlace {
  int32_t k, c, r, s;
  bool is_filter, is_bias;  // both false for a column that is neither

  // `sum` counts a thread's sums, of `columns` columns for each of its filter rows.
  HALOCONV_HOST_DEVICE SumPlace(const WgradArguments& args, int32_t columns, int32_t channel_tile,
                                int32_t sum, int32_t thread) {
    const UnitRow& units = args.sweep.units;
    const int32_t row = sum / (columns / 2), in_row = sum % (columns / 2);
    const int32_t group = thread / 128, lane = thread % 32;
    const int32_t element = lane % 4 * 2 + in_row % 2;  // of the eight of a group of taps
    const int32_t tap_group = in_row / 4;
    const int32_t pixel = units.pixel_of(element);
    k = channel_tile * (args.splits_rows ? 64 : 128) + (args.splits_rows ? 0 : group * 64) +
        thread % 128 / 32 * 16 + lane / 4 + in_row / 2 % 2 * 8;
    r = args.splits_rows ? row * 2 + group : row;
    c = units.channel_of(element);
    const bool is_group = tap_group < units.groups && r < args.r && k < args.k;
    const int32_t taps = is_group ? units.group[tap_group].taps : 0;
    s = is_group ? units.group[tap_group].tap + pixel : 0;
    is_filter = pixel < taps && c < units.channels;
    is_bias = is_group && r == 0 && tap_group == 0 && pixel == 0 && c == units.ones;
  }
};

}  // namespace haloconv::sm90::first_layers
