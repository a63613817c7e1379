#include "conv2d/families/depthwise/bands.h"

#include <algorithm>

#include "conv2d/families/depthwise/units.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::depthwise {

namespace {

constexpr int64_t kStaticBytes =
    1024;  // of a block's shared memory, at most, beside what is counted

bool takes(const Conv2dProblem& problem, Direction direction, const Chip& chip) {
  return direction != Direction::kWgrad && chip.compute_capability >= 80 && lies_in_units(problem);
}

// Blocks on a multiprocessor: what the kernels are compiled for, and what its memory holds.
int64_t resident_blocks(const Bands& d, const Chip& chip) {
  constexpr int64_t kReservedBytes = 1024;
  const int64_t compiled = bands_resident(d.h.taps);
  return std::min(compiled,
                  chip.shared_bytes_per_multiprocessor / (d.shared_bytes(false) + kReservedBytes));
}

}  // namespace

int64_t Bands::blocks() const {
  return ceil_div(strips, strips_at_once) * channel_tiles.divisor * column_tiles.divisor;
}

int64_t Bands::shared_bytes(bool fused) const {
  const int64_t cell = fused ? 8 : 4;  // of two channels
  const int64_t outputs = int64_t{kBandSegments} * kSegmentOutputs * (kBandWarps + 1) * cell;
  return 2 * kSetBytes + band_nonfinite_bytes(h.taps) + raw_bytes() + 2 * outputs + filter_bytes();
}

double Bands::cycles(const Chip& chip) const {
  // Fitted to times on an H100 (benchmarks/NOTES.md): until a block's first rows and filters have
  // come; of a row by one block alone, and by each of several that share a multiprocessor.
  constexpr double kBegin = 6000, kAlone = 700, kShared = 420, kOfTap = 16;
  const int64_t resident = resident_blocks(*this, chip);
  const int64_t multiprocessors = chip.multiprocessors;
  const int64_t at_once = std::min(resident, ceil_div(blocks(), multiprocessors));
  const auto waves = static_cast<double>(ceil_div(blocks(), multiprocessors * at_once));
  const double row = std::max(kAlone, (kShared + kOfTap * h.taps) * static_cast<double>(at_once));
  return waves * (kBegin + iterations() * row);
}

std::optional<Bands> make_bands(const Conv2dProblem& problem, Direction direction,
                                int32_t strip_rows, const Chip& chip) {
  if (!takes(problem, direction, chip)) return std::nullopt;
  const auto axes = make_depthwise_axes(problem, direction);
  if (!axes || axes->rows.divisor != 1) return std::nullopt;
  if (axes->h.taps != 3 && axes->h.taps != 5 && axes->h.taps != 7) return std::nullopt;
  for (const DepthwiseAxis* axis : {&axes->h, &axes->w}) {
    if (axis->step != 1 || axis->upsampling != 1) return std::nullopt;
  }
  Bands d{};
  static_cast<DepthwiseAxes&>(d) = *axes;
  d.most_shared_bytes = chip.shared_bytes_per_block - kStaticBytes;
  d.strip_rows = std::min(strip_rows, d.h.outputs);
  const int64_t segments = ceil_div(d.w.outputs, kSegmentOutputs);
  const int64_t column_tiles = ceil_div(segments, kBandSegments);
  d.across = static_cast<int32_t>(ceil_div(segments, column_tiles));
  d.image_strips = static_cast<int32_t>(ceil_div(d.h.outputs, d.strip_rows));
  const int64_t strips = problem.n * d.image_strips;
  if (strips > INT32_MAX / 2) return std::nullopt;
  d.strips = static_cast<int32_t>(strips);
  d.row_chunks = d.across + kDeepPixels / kSegmentOutputs - 1;
  d.strips_at_once = static_cast<int32_t>(
      std::min<int64_t>({kBandSegments / d.across, kPlaneChunks / d.row_chunks, strips}));
  const int32_t pairs_of_row = d.row_chunks * 4;
  d.pairs = d.strips_at_once * pairs_of_row * (kBandChannels / 8);
  d.channel_tiles = FastDiv(ceil_div(d.channels.divisor, kBandChannels));
  d.column_tiles = FastDiv(column_tiles);
  d.strips_of_image = FastDiv(d.image_strips);
  d.pairs_of_row = FastDiv(pairs_of_row);
  d.segments_across = FastDiv(d.across);
  if (d.blocks() > INT32_MAX || d.shared_bytes(true) > d.most_shared_bytes) return std::nullopt;
  return d;
}

std::vector<Bands> all_bands(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool all) {
  constexpr int32_t kMostStrips = 16;
  std::vector<Bands> bands;
  const int64_t outputs = direction == Direction::kFprop ? problem.p() : problem.h;
  for (int32_t strips = 1; strips <= kMostStrips; ++strips) {
    auto d = make_bands(problem, direction, static_cast<int32_t>(ceil_div(outputs, strips)), chip);
    if (!d) break;
    if (d->image_strips == strips) bands.push_back(*d);  // else it is as with fewer
  }
  std::stable_sort(bands.begin(), bands.end(),
                   [&](const Bands& a, const Bands& b) { return a.cycles(chip) < b.cycles(chip); });
  if (!all && bands.size() > 1) bands.resize(1);
  return bands;
}

}  // namespace haloconv::depthwise
