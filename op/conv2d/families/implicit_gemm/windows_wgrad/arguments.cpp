#include "conv2d/families/implicit_gemm/windows_wgrad/arguments.h"

#include <algorithm>

#include "conv2d/geometry/integers.h"

namespace haloconv::windows_wgrad {

std::optional<Arguments> make_arguments(const Conv2dProblem& problem, bool with_bias,
                                        const Tile& tile, int patch_pixels, int log_units,
                                        int64_t splits) {
  constexpr int kLeastGranule = 4;
  if (problem.input.w != 1 || problem.output.w != 1) return std::nullopt;
  const auto element_bytes = static_cast<int32_t>(size_of(problem.type));
  Arguments args{};
  args.granule = implicit_gemm::granule_of(problem.output, element_bytes, 0);
  if (args.granule < kLeastGranule) return std::nullopt;
  const implicit_gemm::Tile forward{patch_pixels, kThreads / 32 * 4096 / patch_pixels, 64, 64};
  const auto launches = implicit_gemm::make_window_arguments(
      problem, Direction::kFprop, forward, implicit_gemm::Access::kElements, log_units);
  if (launches.size() != 1 || launches.front().phase_count != 1) return std::nullopt;
  args.forward = launches.front();
  if (args.forward.staging.granule < kLeastGranule) return std::nullopt;
  args.geometry = make_wgrad(problem, with_bias);
  args.geometry.channels_last = true;
  args.patch_rows = patch_pixels / implicit_gemm::kPatchColumns;
  args.row_tiles = narrow(ceil_div(args.geometry.rows, tile.rows));
  const int64_t channels =
      args.forward.windows.units() * implicit_gemm::unit_elements(problem.type);
  args.tap_tiles = narrow(ceil_div(problem.r * problem.s, tile.columns / channels));
  args.patches = static_cast<int32_t>(args.forward.pixel_tiles);
  if (args.patches == 0) return std::nullopt;
  args.split_patches = narrow(ceil_div(args.patches, std::min<int64_t>(splits, args.patches)));
  args.splits = narrow(ceil_div(args.patches, args.split_patches));
  return args;
}

int shared_bytes(const Tile& tile, const Arguments& args, int element_bytes) {
  constexpr int kRead = 16;  // behind the last patch
  const int pixels = args.patch_rows * implicit_gemm::kPatchColumns;
  return args.forward.windows.bytes + args.forward.staging.bytes +
         2 * tile.rows * grad_output_line(pixels, element_bytes) + kRead;
}

}  // namespace haloconv::windows_wgrad
