#include "conv2d/families/implicit_gemm/descents/descents.h"

#include <algorithm>

#include "conv2d/geometry/integers.h"

namespace haloconv::implicit_gemm {

namespace {

constexpr int32_t kDescentFactorBytes = kDescentChannels * 8;

// Rows of a descent, of so many columns' rows that as many warps go down. The last round of
// descents takes as long as the others, and each has two rows more of the source.
int32_t rows_of_descent(int64_t columns, int32_t rows, int64_t warps) {
  constexpr int32_t kMostDescents = 64;  // of a column
  int32_t best = rows;
  int64_t least = INT64_MAX;
  for (int32_t count = 1; count <= std::min(rows, kMostDescents); ++count) {
    const int32_t of_one = ceil_div_32(rows, count);
    const int64_t rounds = ceil_div(columns * ceil_div_32(rows, of_one), warps);
    const int64_t time = rounds * (of_one + kDescentTaps - 1);
    if (time >= least) continue;
    least = time;
    best = of_one;
  }
  return best;
}

}  // namespace

bool is_descended(const AxisPhase& phase, const Axis& axis) {
  return phase.taps == kDescentTaps && (axis.shift_step == 1 || axis.shift_step == -1) &&
         axis.source_step == 1;
}

std::optional<Arguments> make_descents(const Arguments& patches, int32_t element_bytes,
                                       const Chip& chip) {
  const Gather& g = patches.geometry;
  const Phase& phase = patches.phases[0];
  if (patches.phase_count != 1 || phase.pixels == 0 || patches.windows.units() != 2 ||
      g.rows > kDescentChannels || !is_descended(phase.h, g.axis_h) ||
      !is_descended(phase.w, g.axis_w) || g.axis_w.pixel_step != 1 || g.destination.w != 1 ||
      g.source.w != 1 || granule_of(g.source, element_bytes, 0) < kWordBytes ||
      g.source.c * element_bytes * descent_channels_alike(element_bytes) % kUnitBytes != 0) {
    return std::nullopt;
  }
  Arguments args = patches;
  args.shifts_rows = false;
  Strips& strips = args.strips;
  strips.groups = kMostDescentWarps;
  while (descent_shared_bytes(args) > chip.shared_bytes_per_block) {
    if ((strips.groups /= 2) < 2) return std::nullopt;
  }
  const int64_t images = phase.pixels / phase.plane.divisor;
  const int32_t lead = descent_lead(g, phase, element_bytes);
  const int32_t columns = ceil_div_32(phase.w.pixels + lead, kDescentColumns);
  const int64_t most_blocks = std::max<int64_t>(chip.multiprocessors / g.groups, 1);
  strips.rows = rows_of_descent(images * columns, phase.h.pixels, most_blocks * strips.groups);
  args.patches[0] = {FastDiv(ceil_div_32(phase.h.pixels, strips.rows)), FastDiv(columns)};
  const int64_t count = images * columns * args.patches[0].rows.divisor;
  strips.blocks =
      static_cast<int32_t>(std::min(most_blocks, ceil_div(count, int64_t{strips.groups})));
  if (count > INT32_MAX / 2 || int64_t{g.groups} * strips.blocks > INT32_MAX) return std::nullopt;
  args.pixel_tiles = static_cast<uint32_t>(count);
  return args;
}

bool descents_take(const Arguments& args) {
  return args.quick.is_quick && args.fusion.residual == nullptr &&
         args.staging.granule >= kWordBytes;
}

int descent_shared_bytes(const Arguments& args) {
  return kDescentFactorBytes + descent_filter_bytes(args.windows.chunks) +
         args.strips.groups * kDescentStages * kDescentStageBytes;
}

}  // namespace haloconv::implicit_gemm
