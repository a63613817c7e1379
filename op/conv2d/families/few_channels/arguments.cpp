#include "conv2d/families/few_channels/arguments.h"

#include <algorithm>

#include "conv2d/geometry/geometry.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/source_rows.h"

namespace haloconv::few_channels {

namespace {

constexpr int kSectorBytes = 32;
constexpr int64_t kMaxFringe = int64_t{256} << 20;  // bytes

// Whether shuffled_epilogue.cuh takes it: neighbouring columns, each with a pixel and the two
// before.
bool can_shuffle(const Arguments& a) {
  return a.taps_w == kShuffledTaps && a.rows <= kShuffledChannels && a.column_step == 1 &&
         a.first_column == 1 - kShuffledTaps && a.destination_w == 1;
}

// Sets the bands of columns, and the fringes in which neighbours' sums overlap. Returns whether the
// kernels and the workspace hold them.
bool set_bands(int32_t sector, bool shuffles, Arguments& a) {
  const int64_t reach = a.offset + (a.taps_w - 1) * int64_t{a.column_step};
  const int64_t columns = std::max<int64_t>(
      a.width, std::min<int64_t>(a.width + reach, a.source_width - int64_t{a.first_window}));
  a.bands = narrow(ceil_div(columns, kWindow));
  a.band_columns = narrow(round_up(ceil_div(columns, a.bands), sector));
  a.bands = narrow(ceil_div(columns, a.band_columns));
  if (a.bands > 1) {
    const int64_t left = round_up(std::max<int64_t>(reach, 0), sector);
    // Shuffled sums leave in whole sectors, also where they are not complete.
    const int64_t right = round_up(std::max(-a.offset, 0), shuffles ? 2 : sector);
    if (left + right > a.band_columns) return false;
    a.fringe_left = narrow(left);
    a.fringe_right = narrow(right);
    const double fringe =
        2.0 * 4 * a.images * a.height * (a.bands - 1.0) * a.rows * a.fringe_columns();
    if (fringe > kMaxFringe) return false;
  }
  a.fringe_div = FastDiv(std::max(a.fringe_columns(), 1));
  return true;
}

// Where things are in shared memory.
void set_places(const Plan& plan, Arguments& a) {
  a.stages = plan.stages;
  // Channels are read several at a time, past the last one.
  a.bias_floats = plan.instance.shuffles ? kShuffledChannels : narrow(round_up(a.rows, kTogether));
  const int32_t staged = std::max(a.columns, (a.taps_w - 1) * a.rows + a.bias_floats);
  a.bias_at = a.weights_bytes;
  a.zeros_at = a.bias_at + a.bias_floats * 4;
  a.staged_at = a.zeros_at + (a.columns + kTogether) * 4;
  a.ring_at = a.staged_at + (plan.instance.shuffles ? 2 * kHandedBytes : staged * kStagedPitch * 4);
  a.barriers_at = a.ring_at + a.stages * kStageBytes;
}

}  // namespace

bool begins_rows_at_pairs(const Conv2dProblem& problem, Direction direction) {
  const Gather gather = make_gather(problem, direction);
  const auto is_even = [](int64_t count, int64_t step) { return count == 1 || step % 2 == 0; };
  return is_even(problem.n, gather.source.n) && gather.source.c % 2 == 0 &&
         is_even(gather.source_h, gather.source.h);
}

std::optional<Arguments> make_arguments(const Conv2dProblem& problem, const Plan& plan) {
  if (problem.stride_h != 1 || problem.stride_w != 1 || problem.groups != 1) return std::nullopt;
  const int64_t bytes = size_of(problem.type);
  const bool is_float32 = problem.type == DataType::kFloat32;
  const Gather gather = make_gather(problem, plan.direction);
  const Phase phase = make_phases(problem, plan.direction).front();
  Arguments a{};
  set_source_rows(a, gather, phase);
  a.destination_w = gather.destination.w;

  a.row_taps = plan.instance.row_taps;
  a.columns = plan.instance.columns;
  if (a.taps_h > a.row_taps || int64_t{a.taps_w} * a.rows > a.columns) return std::nullopt;
  a.chunks = narrow(ceil_div(a.channels * bytes, kSteps * kStepBytes));
  const int64_t weights_bytes = int64_t{a.chunks} * kSteps * kStepBytes * a.row_taps * a.columns;
  if (weights_bytes > kMaxShared) return std::nullopt;
  a.weights_bytes = narrow(weights_bytes);
  a.tap_columns = plan.instance.shuffles ? kShuffledChannels : a.rows;

  if (problem.n == 1) a.source_n = 0;  // with one image the tensor's own distance may be anything
  if (a.source_height == 1) a.source_h = 0;
  const bool is_even = begins_rows_at_pairs(problem, plan.direction);
  if (!is_even && !is_float32) return std::nullopt;
  a.vector = is_float32 ? (is_even ? 4 : 1) : 8;
  // Columns a little before the source's first are zeros and need no band. For 16-bit types none
  // before it has a band: a copy may begin there, with columns that are not zeros.
  const auto sector = static_cast<int32_t>(kSectorBytes / bytes);
  const bool near = a.first_column < 0 && (a.first_column >= -sector || !is_float32);
  a.first_window = near ? 0 : a.first_column & ~1;
  a.offset = a.first_column - a.first_window;
  if (plan.instance.shuffles && !can_shuffle(a)) return std::nullopt;
  const auto even = [](int64_t count) { return count % 2 == 0; };
  a.writes_pairs =
      even(a.destination_n) && even(a.destination_c) && even(a.destination_h) && even(a.width);
  a.images = narrow(problem.n);
  if (!set_bands(sector, plan.instance.shuffles, a)) return std::nullopt;
  if (!set_items(a, plan.sweeps)) return std::nullopt;
  set_places(plan, a);
  return a;
}

int64_t workspace_bytes(const Arguments& args) {
  return args.weights_bytes + 2 * args.fringe_row(1, 0, 0) * 4;
}

int64_t shared_bytes(const Arguments& args) { return int64_t{args.barriers_at} + kBarrierBytes; }

}  // namespace haloconv::few_channels
