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
constexpr size_t kMostPlans = std::size(kTiles) * 2 * 4 * 4;  // pieces, channels, rounds
constexpr int kChunkChannels[] = {8, 16, 32, 64};

// Tiles of fewer columns a warp load more for a product.
constexpr int kWide = 64, kNarrow = 40;

// Of the instruction's rate, in a step, and cycles.
struct Fitted {
  double sustained, sustained_narrow;  // with kWide columns a warp, and with kNarrow
  double step_cycles;                  // of a step, for its barrier and its copies' places
  double copy_cycles;                  // of a copy of grad_output
  double input_cycles;                 // of a byte of the input, copied and prepared
  double block_cycles;                 // of a block, for its first copies and last results
};
// To 80 times of the reference problems in bfloat16 on an H200.
constexpr Fitted kFittedTo16Bits{.sustained = 0.83,
                                 .sustained_narrow = 0.725,
                                 .step_cycles = 650,
                                 .copy_cycles = 0.12,
                                 .input_cycles = 0.043,
                                 .block_cycles = 3000};
// To 56 in TF32.
constexpr Fitted kFittedToTf32{.sustained = 0.93,
                               .sustained_narrow = 0.835,
                               .step_cycles = 870,
                               .copy_cycles = 0.21,
                               .input_cycles = 0.036,
                               .block_cycles = 3000};

// Where threads of their own copy, to 10 and 9 times on an H200: 5 and 3 % in the mean.
constexpr Fitted kApartFittedTo16Bits{.sustained = 1,
                                      .sustained_narrow = 1,
                                      .step_cycles = 984,
                                      .copy_cycles = 0.134,
                                      .input_cycles = 0.062,
                                      .block_cycles = 3000};
constexpr Fitted kApartFittedToTf32{.sustained = 1,
                                    .sustained_narrow = 1,
                                    .step_cycles = 939,
                                    .copy_cycles = 0.011,
                                    .input_cycles = 0.077,
                                    .block_cycles = 3000};

const Fitted& fitted_to(DataType type, const Tile& tile) {
  if (type == DataType::kFloat32) return tile.copies_apart ? kApartFittedToTf32 : kFittedToTf32;
  return tile.copies_apart ? kApartFittedTo16Bits : kFittedTo16Bits;
}

double model_ms(const WarpInstructionModel& model, const Conv2dProblem& problem, const Plan& plan,
                const Chip& chip) {
  const Fitted& fitted = fitted_to(problem.type, plan.tile);
  const double wide = (plan.tile.warp_columns() - kNarrow) / double{kWide - kNarrow};
  const double sustained = wide * fitted.sustained + (1 - wide) * fitted.sustained_narrow;
  const Arguments& args = plan.args;
  const auto element_bytes = static_cast<int>(size_of(problem.type));
  const double rate =
      matrix_rate(chip, problem.type, /*tf32=*/true) * warp_instruction_share(chip) * sustained;
  const int pixels = args.pieces * piece_pixels(element_bytes);
  const double math = plan.tile.rows * plan.tile.columns * pixels / rate;
  const double copies = plan.tile.rows * args.pieces * kPieceBytes / args.grad_output_granule;
  const double input = fitted.input_cycles * args.copy_bytes + fitted.step_cycles;
  // Where threads of their own copy, they may be what takes the time.
  constexpr double kCopyCyclesApart = 1.25;
  const double copying = plan.tile.copies_apart ? copies * kCopyCyclesApart : 0;
  const double step = std::max(math + copies * fitted.copy_cycles + input, copying);
  // Whose first steps bring rows alone.
  const double bands = 1 + args.split_rows / static_cast<double>(problem.p());
  const double block =
      args.split_rows * step + bands * args.first_rows * input + fitted.block_cycles;
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
    plan.workspace_bytes = args.splits * args.split_elements() * int64_t{sizeof(float)};
    plan.estimated_ms = model_ms(model, problem, plan, chip);
  };
  for (const Tile& tile : kTiles) {
    for (const int pieces : {2, 1}) {
      for (const int channels : kChunkChannels) {
        if (tile.columns % channels != 0) continue;
        // Half as many have all channels too.
        if (channels > kChunkChannels[0] && channels / 2 >= problem.group_c()) continue;
        std::optional<Arguments> whole =
            make_arguments(problem, with_bias, tile, pieces, channels, kLeastStages, /*splits=*/1);
        if (!whole || shared_bytes(tile, *whole) > chip.shared_bytes_per_block) continue;
        // As many stages as there is room for.
        for (int stages = kMostStages; stages > kLeastStages; --stages) {
          if (set_stages(stages, *whole) &&
              shared_bytes(tile, *whole) <= chip.shared_bytes_per_block) {
            break;
          }
          set_stages(kLeastStages, *whole);
        }
        const int64_t blocks = whole->blocks();
        const int64_t bytes = whole->split_elements() * int64_t{sizeof(float)};
        const int64_t most =
            std::min<int64_t>(whole->rows, std::max<int64_t>(kMostWorkspaceBytes / bytes, 1));
        // One, two or three rounds of blocks, as full as can be.
        int64_t before = 0;
        for (int64_t rounds = 1; rounds <= 3; ++rounds) {
          set_splits(std::clamp<int64_t>(rounds * chip.multiprocessors / blocks, 1, most), *whole);
          if (whole->splits != before) add(tile, *whole);
          before = whole->splits;
        }
        if (every && before != 1) {
          set_splits(1, *whole);
          add(tile, *whole);
        }
      }
    }
  }
  sort_fastest_first(plans);
  return plans;
}

}  // namespace haloconv::windows_wgrad
