#include "conv2d/families/channels_last/rows.h"

#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::channels_last {

bool writes_rows(const Conv2dProblem& problem, Direction direction) {
  if (direction != Direction::kFprop || problem.type != DataType::kFloat32) return false;
  const Strides& output = problem.output;
  const int64_t p = problem.p(), q = problem.q();
  const bool is_flat = (q == 1 || output.w == 1) && (p == 1 || output.h == q);
  return problem.k > 1 && output.c > 1 && is_flat && (problem.n == 1 || output.n > 0);
}

bool adds_row_splits(const Conv2dProblem& problem) {
  constexpr int64_t kUnit = 4;  // elements of 16 bytes
  const Strides& output = problem.output;
  return problem.p() * problem.q() % kUnit == 0 && output.c % kUnit == 0 &&
         (problem.n == 1 || output.n % kUnit == 0);
}

RowLaunch make_row_launch(const Conv2dProblem& problem, const Launch& launch, const Tile& tile) {
  const TilePhase& phase = launch.args.phase[0];
  SplitLaunch whole{.launch = launch};
  whole.args.args = launch.args;
  whole.args.splits = 1;
  whole.args.split_stages = static_cast<int32_t>(int64_t{phase.taps_h} * phase.taps_w *
                                                 ceil_div(launch.args.channels, tile.depth));
  whole.args.taps_w = FastDiv(phase.taps_w);
  whole.args.tiles = FastDiv(launch.args.tiles);
  return make_row_launch(problem, whole);
}

RowLaunch make_row_launch(const Conv2dProblem& problem, const SplitLaunch& split) {
  RowLaunch rows{.launch = split.launch};
  RowArguments& args = rows.args;
  args.shares = split.args;
  args.destination_c = problem.output.c;
  if (split.args.splits == 1) {
    args.split_step = 0;
    args.image_step = problem.output.n;
    args.channel_step = problem.output.c;
  } else {
    const int64_t pixels = split.args.args.phase[0].pixels;
    args.split_step = pixels * problem.k;
    args.image_step = problem.p() * problem.q();
    args.channel_step = pixels;
  }
  return rows;
}

}  // namespace haloconv::sm90::channels_last
