#include "conv2d/families/implicit_gemm/strips/strips.h"

#include <algorithm>

#include "conv2d/geometry/integers.h"

namespace haloconv::implicit_gemm {

namespace {

// Rows of a strip: few enough that groups end together, of which each goes down so many strips, and
// more than those with which it only begins. On an H200 strips of 16 and 24 rows took 0.99 of the
// time of 12 and of 33.
int32_t rows_of_strip(int64_t rows, int64_t groups) {
  constexpr int64_t kStrips = 27, kLeast = 8, kMost = 64;
  return static_cast<int32_t>(std::clamp(rows / (kStrips * groups), kLeast, kMost));
}

// Of a tile: 18 took 0.96 of the time of patches on an H200, and 25 took 1.13 of it.
constexpr int32_t kMostStripDepths = 20;

int32_t depths_of(const Arguments& args) {
  return args.windows.depths(args.phases[0].taps.divisor);
}

}  // namespace

std::optional<Arguments> make_strips(const Arguments& patches, int32_t element_bytes,
                                     const Chip& chip) {
  const Gather& g = patches.geometry;
  const Phase& phase = patches.phases[0];
  if (patches.phase_count != 1 || patches.windows.chunks != 1 || phase.pixels == 0 ||
      depths_of(patches) > kMostStripDepths || !has_words(g, element_bytes, 0) ||
      granule_of(g.source, element_bytes, 0) < kWordBytes) {
    return std::nullopt;
  }
  Arguments args = patches;
  args.shifts_rows = false;
  args.staging.granule_pixels = granule_of(g.source, element_bytes, 0) / element_bytes;
  Windows& ring = args.windows;
  const int64_t pitch = round_up(window_lead(args, phase) + strip_columns(element_bytes) +
                                     tap_reach(phase.w.taps, g.axis_w.shift_step),
                                 8);
  const int64_t rows = ring_rows(tap_reach(phase.h.taps, g.axis_h.shift_step));
  const int64_t bytes = rows * pitch * ring.units() * kUnitBytes;
  // A thread copies one place of a row, which may be but a word.
  const bool threads_copy_rows = pitch * element_bytes <= kStripTile.threads() * kWordBytes;
  if (!threads_copy_rows || bytes > chip.shared_bytes_per_block) return std::nullopt;
  ring.bytes = static_cast<int32_t>(bytes);
  ring.pitch = FastDiv(pitch);
  args.staging = make_strip_staging(ring, element_bytes, granule_of(g.source, element_bytes, 0));
  Strips& strips = args.strips;
  strips.groups = most_strip_groups(chip.compute_capability);
  while (strip_shared_bytes(args, element_bytes) > chip.shared_bytes_per_block) {
    if (--strips.groups == 0) return std::nullopt;
  }
  const int64_t images = phase.pixels / phase.plane.divisor;
  const int64_t columns = images * ceil_div(phase.w.pixels, kWideColumns);
  const int64_t tiles = int64_t{args.channel_tiles.divisor} * g.groups;
  const int64_t most_blocks = std::max<int64_t>(chip.multiprocessors / tiles, 1);
  strips.rows = rows_of_strip(columns * phase.h.pixels, most_blocks * strips.groups);
  args.patches[0] = {FastDiv(ceil_div(phase.h.pixels, strips.rows)),
                     FastDiv(ceil_div(phase.w.pixels, kWideColumns))};
  const int64_t count = columns * args.patches[0].rows.divisor;
  strips.blocks =
      static_cast<int32_t>(std::min(most_blocks, ceil_div(count, int64_t{strips.groups})));
  if (count > INT32_MAX / 2 || tiles > INT32_MAX / strips.blocks) return std::nullopt;
  args.pixel_tiles = static_cast<uint32_t>(count);
  return args;
}

Staging make_strip_staging(const Windows& ring, int32_t element_bytes, int32_t granule) {
  Windows row = ring;
  row.bytes = ring.pitch.divisor * ring.units() * kUnitBytes;
  Staging staging = make_staging(row, element_bytes, granule, kStripTile.threads());
  while (1 << staging.log_threads < staging.granules) ++staging.log_threads;
  return staging;
}

bool strips_take(const Arguments& args) {
  return args.quick.is_quick && args.fusion.residual == nullptr && args.has_words &&
         args.staging.granule >= kWordBytes;
}

int32_t strip_group_bytes(const Arguments& args, int32_t element_bytes) {
  return args.windows.bytes + kStagedRows * args.staging.bytes + strip_slices_bytes(element_bytes);
}

int strip_shared_bytes(const Arguments& args, int32_t element_bytes) {
  return factor_bytes(kStripTile) + strip_filter_bytes(depths_of(args)) +
         args.strips.groups * strip_group_bytes(args, element_bytes);
}

}  // namespace haloconv::implicit_gemm
