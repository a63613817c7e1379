#include "batch_norm/plan.h"

#include <algorithm>

namespace haloconv::batch_norm {
namespace {

constexpr int64_t kWidestSlice = 32;  // units: beyond, too few threads would share a column

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The share of memory's rate that rows of a slice, of so many units, reach: pieces of less than 128
// bytes waste a part of each access.
double rate_of(int64_t slice_units, int64_t units) {
  if (slice_units == units || slice_units >= 16) return 1;
  return slice_units >= 8 ? 0.97 : slice_units >= 4 ? 0.8 : 0.4;
}

}  // namespace

std::optional<Plan> make_plan(int64_t rows, int64_t channels, int multiprocessors) {
  if (rows < 1 || channels < 1 || channels % kUnit != 0) return std::nullopt;
  const int64_t units = channels / kUnit;
  Plan best;
  double most = 0.5;
  for (int64_t width = 1; width <= std::min(units, kWidestSlice); ++width) {
    const int64_t slices = units / width, lanes = kThreads / width;
    if (units % width != 0 || slices > multiprocessors) continue;
    const int64_t chunks = multiprocessors / slices;
    const double used = static_cast<double>(lanes * width * slices * chunks) /
                        (static_cast<double>(kThreads) * multiprocessors);
    const double rate = used * rate_of(width, units);
    if (rate <= most) continue;
    most = rate;
    const int64_t chunk_rows = std::max(ceil_divide(rows, chunks), std::min(lanes, rows));
    best = {.rows = rows,
            .channels = channels,
            .chunk_rows = chunk_rows,
            .slice_units = static_cast<int32_t>(width),
            .slices = static_cast<int32_t>(slices),
            .lanes = static_cast<int32_t>(lanes),
            .chunks = static_cast<int32_t>(ceil_divide(rows, chunk_rows))};
  }
  if (best.slices == 0) return std::nullopt;
  return best;
}

}  // namespace haloconv::batch_norm
