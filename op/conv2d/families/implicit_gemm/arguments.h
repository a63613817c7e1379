// fprop and dgrad as a product of matrices: destination (pixels x channels) = source (pixels x
// reduction) * filter (reduction x channels).
//
// A row of the source's matrix is what a destination pixel meets: for each tap of its phase, in
// order, the channels of a source pixel. The reduction counts (tap, channel); 16 bytes of it are a
// unit, which belongs to one pixel: channels are rounded up to whole units, with zeros. Of the
// filter's matrix each destination channel has its reduction side by side in memory: as fprop's
// filter lies where its channels are innermost, or packed so.
#pragma once

#include <cstdint>
#include <vector>

#include "conv2d/device/channel_results.h"
#include "conv2d/families/implicit_gemm/staged/staging.h"
#include "conv2d/families/implicit_gemm/tile.h"
#include "conv2d/families/implicit_gemm/windows/windows.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/problem.h"

namespace haloconv::implicit_gemm {

// How the source comes to shared memory, and sums go to the destination.
enum class Access {
  kUnits,    // whole units of channels, which lie side by side, are copied as they are
  kElements  // one by one, so that any strides will do; quick where pixels lie side by side
};

// How a launch goes by strips (strips.h).
struct Strips {
  int32_t rows;    // of a strip
  int32_t groups;  // of a block's warps, each of which goes down a strip
  int32_t blocks;  // that share the strips of a tile of channels
};

struct Arguments {
  const void* source;
  const void* filter;  // (group, phase, channel of the destination, reduction)
  const void* bias;    // one value for each channel of the destination, or null
  void* destination;
  Fusion fusion;
  sm90::QuickFusion quick;  // of bias and fusion
  bool has_words;           // has_words() of the destination
  bool shifts_rows;         // staging.h
  Gather geometry;
  int64_t filter_group;   // elements from one group's filter to the next
  FastDiv channel_units;  // units of a source pixel's channels, of a group, rounded up
  FastDiv channel_tiles;
  uint32_t pixel_tiles;
  int32_t stages;                    // of gathered units
  Windows windows;                   // or count 0
  Staging staging;                   // of windows by elements; else of granules of one pixel
  Patches patches[kPhasesOfLaunch];  // with windows
  Strips strips;                     // instead of patches, or of no rows
  int32_t phase_count;
  // packed_offset: elements before the phase's filter; reduction: with channels rounded up.
  Phase phases[kPhasesOfLaunch];
  // Elements before the launch's first row (interleaved_rows.h).
  int64_t source_offset, destination_offset;
};

// A unit of the reduction: its first channel, and its tap in the phase.
struct UnitPlace {
  int32_t channel, y, x;

  HALOCONV_HOST_DEVICE UnitPlace(const FastDiv& channel_units, const FastDiv& taps_w, int32_t unit,
                                 int32_t unit_elements) {
    const int32_t tap = channel_units.quotient(unit);
    channel = (unit - tap * channel_units.divisor) * unit_elements;
    y = taps_w.quotient(tap);
    x = tap - y * taps_w.divisor;
  }
};

// A unit as its tap shifts it: the source pixel, from the one that a destination pixel meets before
// any tap's shift, and the distance in elements.
struct UnitShift {
  int32_t h, w;
  int64_t elements;

  HALOCONV_HOST_DEVICE UnitShift(const Gather& g, const Phase& phase, const UnitPlace& at)
      : h(phase.h.first_shift + at.y * g.axis_h.shift_step),
        w(phase.w.first_shift + at.x * g.axis_w.shift_step),
        elements(at.channel + h * g.source.h + w * g.source.w) {}
};

inline int32_t unit_elements(DataType type) {
  return static_cast<int32_t>(kUnitBytes / size_of(type));
}

// Whether both tensors can be accessed by units.
bool has_units(const Conv2dProblem& problem);

// Whether the filter's elements lie in the kernel's order, so that nothing is packed by units.
bool filter_lies_packed(const Conv2dProblem& problem, Direction direction);

// All but pointers, for up to kPhasesOfLaunch phases each. Empty where a launch had 2^31 blocks.
std::vector<Arguments> make_arguments(const Conv2dProblem& problem, Direction direction,
                                      const Tile& tile, int stages);

// The same with windows whose pixels have 2^log_units units, of patches of 2^log_columns columns.
// Empty too where there can be none: the source's pixels that neighbours meet are not neighbours,
// there is but one tap, or a chunk has too few steps to bring the next window. With `shifts_rows`
// rows are shifted if that pays: these begin at words, and their pixels are neighbours in memory
// (staging.h, staged/costs.h).
std::vector<Arguments> make_window_arguments(const Conv2dProblem& problem, Direction direction,
                                             const Tile& tile, Access access, int log_units,
                                             int log_columns = kLogPatchColumns,
                                             bool shifts_rows = false);

// How much further left a phase's windows begin than its taps need. It is the same for all patches.
HALOCONV_HOST_DEVICE constexpr int32_t window_lead(const Arguments& args, const Phase& phase) {
  const int32_t column = phase.w.origin + phase.w.first_shift -
                         taps_before(phase.w.taps, args.geometry.axis_w.shift_step);
  return lead_of(column, args.staging.granule_pixels);
}

// Whether rows of the destination consist of whole words of neighbouring pixels, one or two.
// `address` is the destination's.
bool has_words(const Gather& geometry, int32_t element_bytes, uintptr_t address);

// The most bytes, to 16, that one copy can bring of a row of the source wherever these begin.
// `address` is the source's.
int32_t granule_of(const Strides& source, int32_t element_bytes, uintptr_t address);

// With granules of so many bytes, no more than the windows were made for, which as many threads as
// a power of two bring; or of shifted rows.
Staging make_staging(const Windows& windows, int32_t element_bytes, int32_t granule, int threads,
                     bool shifts_rows = false);

// Of a launch's kernel.
int shared_bytes(const Tile& tile, const Arguments& args);

// Elements of the packed filter.
int64_t packed_elements(const std::vector<Arguments>& launches);

}  // namespace haloconv::implicit_gemm
