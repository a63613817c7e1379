#include "conv2d/families/implicit_gemm_wgrad/arguments.h"

#include "conv2d/geometry/integers.h"

namespace haloconv::implicit_gemm_wgrad {

Arguments make_arguments(const Conv2dProblem& problem, bool with_bias, const Tile& tile,
                         int64_t splits, int stages) {
  Arguments args{};
  args.geometry = make_wgrad(problem, with_bias);
  args.geometry.channels_last = true;
  const auto element_bytes = static_cast<int>(size_of(problem.type));
  args.tap_columns = FastDiv(round_up(problem.group_c(), kUnitBytes / element_bytes));
  args.kernel_columns = narrow(problem.r * problem.s * args.tap_columns.divisor);
  args.row_tiles = static_cast<uint32_t>(ceil_div(args.geometry.rows, tile.rows));
  args.column_tiles = static_cast<uint32_t>(ceil_div(args.kernel_columns, tile.columns));
  // Whole steps, but for the last split.
  args.split_pixels = round_up(ceil_div(args.geometry.pixels, splits), step_pixels(element_bytes));
  args.splits = ceil_div(args.geometry.pixels, args.split_pixels);
  args.stages = stages;
  return args;
}

}  // namespace haloconv::implicit_gemm_wgrad
