#include <algorithm>
#include <cmath>

#include "conv2d/families/pointwise/costs.h"
#include "conv2d/families/pointwise/paired_arguments.h"
#include "conv2d/families/pointwise/wgrad_plan.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::pointwise {

namespace {

// As kMostChunks, for float32 results: no rounding to 16 bits hides the error of these.
constexpr int64_t kMostChunksOfTf32 = 32;

// What a block brings of a chunk, by sectors of 32 bytes: grad_output, and of the input's channels
// that exist their pairs, with those beside a chunk where they are met.
double brought_bytes(const PairedArguments& args) {
  constexpr int kSectorBytes = 32;
  const int halves = std::min(2, args.halves());
  const int row_bytes = kDepth * kPairBytes + (args.has_neighbours() ? 2 * kSectorBytes : 0);
  return paired_grads_bytes(args.taps_w) +
         halves * std::min(kPairedChannels, args.channels) * row_bytes;
}

double chunk_cycles(const PairedArguments& args, bool rounds, const Chip& chip) {
  // By calculation: of shared memory, for copies, operands in registers and the products.
  constexpr double kShared = 1250, kWiderShared = 1350, kRounding = 350;
  constexpr double kBytesPerCycle = 15.5;  // fitted to times on an H100
  const int taps_w = args.taps_w;
  const double rounding = rounds ? kRounding * paired_channels(taps_w) / 128 : 0;
  return std::max((taps_w == 2 ? kShared : kWiderShared) + rounding,
                  brought_bytes(args) / (kBytesPerCycle * l2_scale(chip)));
}

double paired_ms(const Conv2dProblem& problem, const PairedArguments& args, const WgradPlan& plan,
                 const Chip& chip) {
  constexpr double kClockHz = 1.7e9, kBlockCycles = 2800, kResultCycles = 3000;
  constexpr double kBytesPerMs = 3.8e9;
  const WgradArguments& product = args.product;
  const double waves =
      std::ceil(static_cast<double>(product.blocks()) / static_cast<double>(chip.multiprocessors));
  const double cycles =
      kBlockCycles +
      waves * (product.split_chunks * chunk_cycles(args, plan.rounds, chip) + kResultCycles);
  return std::max(cycles / (kClockHz * clock_scale(chip)) * 1e3,
                  problem.bytes() / (kBytesPerMs * memory_scale(chip))) +
         static_cast<double>(plan.workspace_bytes) / (kPartialBytesPerMs * memory_scale(chip)) +
         2 * kLaunchMs;
}

}  // namespace

std::optional<WgradPlan> make_paired_plan(const Conv2dProblem& problem, const Chip& chip,
                                          bool with_bias) {
  const std::optional<PairedArguments> whole = make_paired_arguments(problem, 1);
  if (!whole) return std::nullopt;
  const bool rounds = problem.type == DataType::kFloat32;
  const int64_t chunks = whole->product.chunks;
  const int64_t fewest = ceil_div(chunks, rounds ? kMostChunksOfTf32 : kMostChunks);
  std::optional<WgradPlan> best;
  for (int waves = 1; waves <= kMaxWaves; ++waves) {
    const int64_t blocks = int64_t{chip.multiprocessors} * waves;
    const auto splits =
        static_cast<int>(std::clamp<int64_t>(blocks / whole->product.blocks(), fewest, chunks));
    const std::optional<PairedArguments> args = make_paired_arguments(problem, splits);
    if (!args) continue;
    WgradPlan plan{.tile = {paired_channels(static_cast<int>(problem.s)), kPairedRows},
                   .splits = args->product.splits,
                   .with_bias = with_bias,
                   .rounds = rounds};
    plan.workspace_bytes = workspace_bytes(args->product, with_bias);
    if (plan.workspace_bytes > kMaxWorkspace) continue;
    plan.estimated_ms = paired_ms(problem, *args, plan, chip);
    if (best && plan.estimated_ms >= best->estimated_ms) continue;
    plan.paired = std::make_shared<const PairedArguments>(*args);
    best = plan;
  }
  return best;
}

}  // namespace haloconv::pointwise
