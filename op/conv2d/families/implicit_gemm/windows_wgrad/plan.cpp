#include "conv2d/families/implicit_gemm/windows_wgrad/plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ostream>

#include "conv2d/families/implicit_gemm/windows_wgrad/splits.h"
#include "conv2d/fastest_first.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/limits.h"
#include "conv2d/geometry/warp_instruction.h"
#include "conv2d/rates.h"

namespace haloconv::windows_wgrad {

namespace {

constexpr int64_t kMostWorkspaceBytes = int64_t{64} << 20;
constexpr size_t kMostPlans = std::size(kTiles) * 4 * 4 * 4;  // pieces, channels, rounds
constexpr int kChunkChannels[] = {8, 16, 32, 64};

// Columns of a warp, between which the products' cycles are interpolated.
constexpr int kWide = 64, kNarrow = 40;

// Cycles, and multiples of the products' cycles at the instruction's rate.
struct Fitted {
  double wide, narrow;  // multiples, with kWide columns a warp, and with kNarrow
  double step;          // of a step, for its barrier and its copies' places
  double copy;          // of a copy of grad_output
  double input;         // of a byte of the input, copied and prepared
  double block;         // of a block, for its first copies and last results
  // Where threads of their own copy, these may be what takes the time: of a step, of a copy of
  // grad_output, and of one of the input.
  double copying_step = 0, copying = 0, copying_input = 0;
};
// To 352 times of 19 problems on an H200: by kinds of tiles 3 to 4 % off in the mean, at most 19.
constexpr Fitted kTogether16Bits{
    .wide = 0.9, .narrow = 0.9, .step = 1108, .copy = 0.245, .input = 0.0062, .block = 12700};
constexpr Fitted kTogetherTf32{
    .wide = 0.977, .narrow = 0.977, .step = 734, .copy = 0.351, .input = 0.029, .block = 14400};
constexpr Fitted kApart16Bits{.wide = 1.164,
                              .narrow = 0.889,
                              .step = 650,
                              .copy = 0.205,
                              .input = 0.033,
                              .block = 6860,
                              .copying_step = 1130,
                              .copying = 0.545,
                              .copying_input = 1.31};
constexpr Fitted kApartTf32{.wide = 1.11,
                            .narrow = 0.876,
                            .step = 948,
                            .copy = 0.217,
                            .input = 0.024,
                            .block = 8200,
                            .copying_step = 1260,
                            .copying = 0.532,
                            .copying_input = 1.32};
// Of four warps, of 72 columns.
constexpr Fitted kFourWarps16Bits{.wide = 1.074,
                                  .narrow = 1.074,
                                  .step = 356,
                                  .copy = 0.236,
                                  .input = 0.0477,
                                  .block = 7020,
                                  .copying_step = 1130,
                                  .copying = 0.568,
                                  .copying_input = 1.31};
constexpr Fitted kFourWarpsTf32{.wide = 1.123,
                                .narrow = 1.123,
                                .step = 541,
                                .copy = 0.203,
                                .input = 0.0172,
                                .block = 8420,
                                .copying_step = 1260,
                                .copying = 0.532,
                                .copying_input = 1.32};

const Fitted& fitted_to(DataType type, const Tile& tile) {
  const bool is_float = type == DataType::kFloat32;
  if (!tile.copies_apart) return is_float ? kTogetherTf32 : kTogether16Bits;
  if (tile.warps == 4) return is_float ? kFourWarpsTf32 : kFourWarps16Bits;
  return is_float ? kApartTf32 : kApart16Bits;
}

// Of a row's pieces, those in which it begins or ends within a granule.
double edge_share(const Conv2dProblem& problem, const Arguments& args) {
  const auto element_bytes = static_cast<int64_t>(size_of(problem.type));
  const auto is_whole = [&](int64_t elements) {
    return elements * element_bytes % args.grad_output_granule == 0;
  };
  if (is_whole(problem.q()) && is_whole(problem.output.h)) return 0;
  const double pieces = static_cast<double>(args.bands.divisor) * args.pieces;
  return std::min(pieces, 2.0) / pieces;
}

double model_ms(const WarpInstructionModel& model, const Conv2dProblem& problem, const Plan& plan,
                const Chip& chip) {
  const Fitted& fitted = fitted_to(problem.type, plan.tile);
  const double wide = (plan.tile.warp_columns() - kNarrow) / double{kWide - kNarrow};
  const Arguments& args = plan.args;
  const auto element_bytes = static_cast<int>(size_of(problem.type));
  const double rate = matrix_rate(chip, problem.type, /*tf32=*/true) * warp_instruction_share(chip);
  const int pixels = args.pieces * piece_pixels(element_bytes);
  const double products =
      plan.tile.elements() * pixels / rate * (wide * fitted.wide + (1 - wide) * fitted.narrow);
  const double copies = plan.tile.rows * args.pieces * kPieceBytes / args.grad_output_granule;
  const double input = fitted.input * args.copy_bytes + fitted.step;
  // A granule in which a row begins or ends is copied word by word, while the warp's others wait.
  constexpr double kWordCopy = 0.4;  // of the time of a granule's
  const int words = args.grad_output_granule / 4;
  const double copied = copies * (1 + kWordCopy * (words - 1) * edge_share(problem, args));
  const double copying = fitted.copying_step + copied * fitted.copying +
                         args.chunk_channels * args.input_granules * fitted.copying_input;
  const double step = std::max(products + copies * fitted.copy + input, copying);
  // Whose first steps bring rows alone.
  const double bands = 1 + args.split_rows / static_cast<double>(problem.p());
  const double block = args.split_rows * step + bands * args.first_rows * input + fitted.block;
  const double rounds = std::ceil(static_cast<double>(args.blocks()) / chip.multiprocessors);
  const double math_ms = rounds * block / chip.clock_hz * 1e3;
  return model.ms_with_partial_sums(math_ms, plan.workspace_bytes);
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  return os << "wgrad tile=" << plan.tile.rows << 'x' << plan.tile.columns
            << (plan.tile.copies_apart ? " copies_apart" : "") << " pieces=" << plan.args.pieces
            << " channels=" << plan.args.chunk_channels << " stages=" << plan.args.stages
            << " splits=" << plan.args.splits
            << (plan.args.geometry.has_bias_column ? " with_bias" : "")
            << " workspace=" << plan.workspace_bytes;
}

std::string declines(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                     bool tf32) {
  constexpr int64_t kLeastGroup = 8, kMostColumns = int64_t{1} << 24;
  if (direction != Direction::kWgrad) return "it computes weight gradients only";
  if (std::string reason = warp_instruction_decline(problem, direction, chip, tf32);
      !reason.empty()) {
    return reason;
  }
  if (problem.groups > 1 && std::min(problem.group_c(), problem.group_k()) < kLeastGroup) {
    return "a group has fewer than 8 channels";
  }
  if (problem.group_c() * problem.r * problem.s > kMostColumns) {
    return "channels times taps are more than 2^24";
  }
  if (problem.stride_h != 1 || problem.stride_w != 1) return "it has a stride";
  if (problem.r * problem.s < 2) return "it has one tap";
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool every) {
  const WarpInstructionModel model(problem, chip);
  std::vector<Plan> plans;
  plans.reserve(kMostPlans);
  const auto add = [&](const Tile& tile, const Arguments& args) {
    if (args.blocks() > INT32_MAX) return;
    Plan& plan = plans.emplace_back(tile, args);
    plan.workspace_bytes = args.splits * args.split_elements(tile) * int64_t{sizeof(float)};
    plan.estimated_ms = model_ms(model, problem, plan, chip);
  };
  for (const Tile& tile : kTiles) {
    for (const int pieces : {4, 3, 2, 1}) {
      for (const int channels : kChunkChannels) {
        if (tile.columns % channels != 0) continue;
        // Half as many have all channels too.
        if (channels > kChunkChannels[0] && channels / 2 >= problem.group_c()) continue;
        std::optional<Arguments> whole =
            make_arguments(problem, with_bias, tile, pieces, channels, kLeastStages, /*splits=*/1);
        if (!whole || shared_bytes(tile, *whole) > chip.shared_bytes_per_block) continue;
        // As many stages as there is room for; but copies of few bytes need some of the memory as a
        // cache: square_3x3 in bfloat16 takes 2.28 ms with four stages, and 2.82 with five.
        const bool leaves_cache = tile.copies_apart && whole->grad_output_granule < 16;
        if (leaves_cache || !set_stages(kMostStages, *whole) ||
            shared_bytes(tile, *whole) > chip.shared_bytes_per_block) {
          set_stages(kLeastStages, *whole);
        }
        const int64_t blocks = whole->blocks();
        const int64_t bytes = whole->split_elements(tile) * int64_t{sizeof(float)};
        const int64_t most =
            std::min<int64_t>(whole->rows, std::max<int64_t>(kMostWorkspaceBytes / bytes, 1));
        // One, two or three rounds of blocks, as full as can be.
        int64_t before = 0;
        for (int64_t rounds = 1; rounds <= 3; ++rounds) {
          set_splits(std::clamp<int64_t>(rounds * chip.multiprocessors / blocks, 1, most), tile,
                     *whole);
          if (whole->splits != before) add(tile, *whole);
          before = whole->splits;
        }
        if (every && before != 1) {
          set_splits(1, tile, *whole);
          add(tile, *whole);
        }
      }
    }
  }
  sort_fastest_first(plans);
  return plans;
}

}  // namespace haloconv::windows_wgrad
