// The part of a source row that is in a window.
#pragma once

#include "conv2d/families/few_channels/arguments.h"

namespace haloconv::few_channels {

struct SourceRow {
  int32_t image, row, window_column;  // where the window begins

  __device__ __forceinline__ int32_t shift(const Arguments& args, int32_t channel) const {
    return args.shift(image, channel, row, window_column);
  }
  // The source column of a window's pixel, and how many of `columns` from it on are in the source.
  __device__ __forceinline__ int32_t column_of(int32_t pixel) const {
    return window_column + pixel;
  }
  __device__ __forceinline__ int32_t count_inside(const Arguments& args, int32_t pixel,
                                                  int32_t columns) const {
    const int32_t x = column_of(pixel);
    const bool begins =
        row >= 0 && row < args.source_height && pixel < args.band_columns && x < args.source_width;
    return begins ? min(args.source_width - x, columns) : 0;
  }
};

}  // namespace haloconv::few_channels
