#include "conv2d/families/all_phases/plan.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "chip/scale.h"
#include "conv2d/families/all_phases/arguments.h"
#include "conv2d/fastest_first.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/limits.h"

namespace haloconv::all_phases {

namespace {

// Groups are multiplied as one, with weights of zero between them, if they have no more channels
// than this; or apart, if each has so many.
constexpr int64_t kMostChannelsTogether = 128;
constexpr int64_t kLeastChannelsApart = 4;

bool may_be_one_product(const Conv2dProblem& p) {
  return p.groups == 1 || std::max(p.c, p.k) <= kMostChannelsTogether;
}

bool may_be_apart(const Conv2dProblem& p) {
  return p.groups > 1 && std::min(p.group_c(), p.group_k()) >= kLeastChannelsApart;
}

// A block waits for the operands of each chunk, unless they have been packed: the cycles of a
// window's 128 positions, by the way in which they are brought.
double cycles_of_positions(const Arguments& args, DataType type) {
  if (args.reads_units) return 580;
  if (args.source_c == 1) {  // channels innermost that fill no 16 bytes
    const double channels_of_chunk = kChunkUnits * 16.0 / static_cast<double>(size_of(type));
    return 700 + 2300 * std::min(1.0, args.source_channels / channels_of_chunk);
  }
  return type == DataType::kFloat32 ? 660 : 840;
}

// The constants were fitted to 380 times on an H200: benchmarks/NOTES.md, "all phases at once".
double estimate_ms(const Conv2dProblem& problem, const Tile& tile, const Arguments& args,
                   const Chip& chip) {
  constexpr double kClockHz = 1.6e9;
  constexpr double kChunkCycles = 780;    // of a chunk, beside what follows
  constexpr double kUnitsPerCycle = 220;  // products of 16 bytes of channels
  constexpr double kL2BytesPerCycle = 32;
  constexpr double kTileCycles = 210;
  constexpr double kPairCycles = 0.165, kSingleCycles = 0.21;  // to write an element
  constexpr double kLaunchMs = 0.004;
  constexpr double kBytesPerMs = 3.3e9;
  constexpr double kPackedBytesPerMs = 1.5e9;
  const double elements = 128.0 * tile.blocks * tile.columns;
  const double of_multiprocessor = static_cast<double>(args.tiles) / chip.multiprocessors;
  const double most_at_once = tile.blocks == 1 ? 2 : 1;
  // Blocks that share a multiprocessor: their waiting overlaps, all else does not.
  const double at_once = std::clamp(of_multiprocessor, 1.0, most_at_once);
  const double products = elements * args.h.shifts * args.w.shifts * kChunkUnits / kUnitsPerCycle;
  const double bytes =
      (args.window_bytes + args.filter_bytes) / (kL2BytesPerCycle * l2_scale(chip));
  const double positions =
      static_cast<double>(ceil_div(args.window, 128)) * cycles_of_positions(args, problem.type);
  const double brought = at_once * std::max(products, bytes);
  const double chunk = tile.packs_source ? brought : kChunkCycles + std::max(brought, positions);
  const double rest =
      at_once * (kTileCycles + elements * (args.writes_pairs ? kPairCycles : kSingleCycles));
  const double waves = std::ceil(of_multiprocessor / most_at_once);
  // Where groups are apart and the result's rows are innermost, a few layers took 1.2 to 1.7 times
  // as long on an H200 as the other terms say. The cause is not known.
  constexpr double kRowsOfGroups = 1.35;
  const bool has_rows_apart = tile.has_groups_apart && !args.channels_innermost;
  const double cycles = waves * (args.chunks * chunk + rest) * (has_rows_apart ? kRowsOfGroups : 1);
  return std::max(cycles / (kClockHz * clock_scale(chip)) * 1e3,
                  problem.bytes() / (kBytesPerMs * memory_scale(chip))) +
         kLaunchMs + packed_source_bytes(args) / (kPackedBytesPerMs * memory_scale(chip));
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  const Arguments& args = *plan.arguments;
  return os << "dgrad all_phases tile=" << plan.tile.blocks * 128 << 'x' << plan.tile.columns
            << " period=" << args.h.stride << 'x' << args.w.stride << " shifts=" << args.h.shifts
            << 'x' << args.w.shifts << (plan.tile.packs_source ? " packs" : "")
            << (plan.tile.has_groups_apart ? " groups_apart" : "") << " stages=" << args.stages
            << " workspace=" << plan.workspace_bytes;
}

std::string declines(const Conv2dProblem& p, const Chip& chip) {
  if (chip.compute_capability != 90) {
    return "the device is not of compute capability 9.0 but of " +
           compute_capability_text(chip.compute_capability);
  }
  if (std::string reason = beyond_limits(p, Direction::kDgrad); !reason.empty()) return reason;
  if (!may_be_one_product(p) && !may_be_apart(p)) {
    return "it has more than 128 channels, in groups of fewer than 4";
  }
  if ((p.r > 1 && p.dilation_h > 1) || (p.s > 1 && p.dilation_w > 1)) return "it has a dilation";
  const int64_t stride_h = p.p() == 1 ? std::max(p.stride_h, p.r) : p.stride_h;
  const int64_t stride_w = p.q() == 1 ? std::max(p.stride_w, p.s) : p.stride_w;
  if (stride_h * stride_w == 1) return "it has no stride";
  if (std::max(stride_h, stride_w) > kMostStride) return "a stride is over 16";
  if (ceil_div(p.r, stride_h) * ceil_div(p.s, stride_w) > 16) {
    return "a pixel meets more than 16 taps";
  }
  constexpr int64_t kMost = int64_t{1} << 31;
  const auto span = [](const Strides& s, int64_t c, int64_t h, int64_t w) {
    return c * s.c + h * s.h + w * s.w;
  };
  if (span(p.input, p.c, p.h + stride_h, p.w + stride_w) >= kMost ||
      span(p.output, p.k, p.p(), p.q()) >= kMost) {
    return "an image spans 2^31 elements or more";
  }
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip) {
  std::vector<Plan> plans;
  const auto add = [&](const Tile& tile) {
    const std::optional<Arguments> args = make_arguments(problem, tile);
    // Pixels that are read by 16 bytes take longer to pack than to bring.
    if (!args || (tile.packs_source && args->reads_units)) return;
    plans.push_back({.tile = tile,
                     .workspace_bytes = args->packed_bytes + packed_source_bytes(*args),
                     .estimated_ms = estimate_ms(problem, tile, *args, chip),
                     .arguments = std::make_shared<const Arguments>(*args)});
  };
  for (Tile tile : kTiles) {
    if (may_be_one_product(problem)) {
      add(tile);
      tile.packs_source = true;
      add(tile);
      tile.packs_source = false;
    }
    tile.has_groups_apart = true;
    if (may_be_apart(problem)) add(tile);
  }
  sort_fastest_first(plans);
  return plans;
}

}  // namespace haloconv::all_phases
