// A window is what a tile's pixels meet of the source, at all taps: it comes to shared memory once,
// some channels at a time, and each tap reads it from another place on.
//
// The tile's pixels are a patch of one image, kPatchColumns wide or, by elements, kWideColumns. A
// window's pixels have a few units each; its rows lie `pitch` pixels apart, a multiple of 8, so
// that eight neighbours of one unit lie in all banks wherever they begin.
#pragma once

#include <cstdint>

#include "conv2d/families/implicit_gemm/tile.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/geometry/geometry.h"

namespace haloconv::implicit_gemm {

inline constexpr int kPatchColumns = 16;  // a warp's matrix instruction has as many pixels
inline constexpr int kLogPatchColumns = 4;
// Whose results a warp writes in whole rows: four instructions' pixels lie side by side.
inline constexpr int kWideColumns = 64, kLogWideColumns = 6;

// Of the filter, kRowBytes for each of the tile's channels, in a ring.
inline constexpr int kFilterStages = 3;
HALOCONV_HOST_DEVICE constexpr int filter_stage_bytes(const Tile& tile) {
  return tile.channels * kRowBytes;
}

// In front of the windows: two floats for each of the tile's channels, or of a step's of results
// where the tile has fewer.
inline constexpr int kResultStep = 32;
HALOCONV_HOST_DEVICE constexpr int result_channels(int warp_channels) {
  return warp_channels < kResultStep ? kResultStep : warp_channels;
}
HALOCONV_HOST_DEVICE constexpr int factor_bytes(const Tile& tile) {
  return tile.warps_along_channels() * result_channels(tile.warp_channels) * 8;
}

// Whether there is a kernel: two or more of its blocks share a multiprocessor, so that one computes
// while another fills its first window or writes its results.
inline constexpr int kWindowThreads = 128;
HALOCONV_HOST_DEVICE constexpr bool takes_windows(const Tile& tile) {
  return tile.threads() == kWindowThreads && tile.pixels >= 128;
}
// Whether there is one for units: their results are written by whole steps.
HALOCONV_HOST_DEVICE constexpr bool takes_unit_windows(const Tile& tile) {
  return takes_windows(tile) && tile.warp_channels >= kResultStep;
}

// How many a phase's image has of them.
struct Patches {
  FastDiv rows, columns;
};

struct Windows {
  int32_t count;        // in shared memory: 1, or 2, of which one is filled while the other is read
  int32_t log_units;    // a pixel has 2^log_units units: 2 or 4
  int32_t log_columns;  // of a patch
  int32_t chunks;       // of so many channels
  int32_t bytes;        // of a window
  FastDiv pitch;
  // By units, from one of a thread's pixels to its next: rows and columns of the window, and
  // elements of the source; and what is added where that column lies behind the window's last.
  int32_t step_y, step_x;
  int64_t step, wrap;

  HALOCONV_HOST_DEVICE int32_t units() const { return 1 << log_units; }
  HALOCONV_HOST_DEVICE int32_t patch_columns() const { return 1 << log_columns; }
  HALOCONV_HOST_DEVICE int32_t patch_rows(int32_t pixels) const { return pixels >> log_columns; }
  // Of a chunk: two units of a tap each.
  HALOCONV_HOST_DEVICE int32_t depths(int32_t taps) const { return taps * units() / 2; }
  // Where a pixel's unit lies.
  HALOCONV_HOST_DEVICE int32_t place(int32_t pixel, int32_t unit) const {
    const int32_t turned = unit ^ (pixel >> (3 - log_units) & (units() - 1));
    return ((pixel << log_units) + turned) * kUnitBytes;
  }
};

// Steps of two depths each in which the next chunk's window comes, at least: a step may be of two
// chunks, and the window must be there in the one before its first.
HALOCONV_HOST_DEVICE constexpr int32_t fill_steps(int32_t chunk_depths) {
  return chunk_depths / 2 - 1;
}

// How far a phase's taps reach along an axis, and how far before its pixels' own place: taps may
// count backwards.
HALOCONV_HOST_DEVICE constexpr int32_t tap_reach(int32_t taps, int32_t step) {
  return (taps - 1) * (step < 0 ? -step : step);
}
HALOCONV_HOST_DEVICE constexpr int32_t taps_before(int32_t taps, int32_t step) {
  return step < 0 ? (taps - 1) * -step : 0;
}

}  // namespace haloconv::implicit_gemm
