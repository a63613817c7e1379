#include "conv2d/families/halo/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

#include "chip/scale.h"
#include "conv2d/families/halo/arguments.h"
#include "conv2d/families/halo/zero_arguments.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/rows_innermost.h"

namespace haloconv::sm90 {

namespace {

// The model's constants: an H200, benchmarks/NOTES.md, "The Hopper planner". chip/scale.h scales
// the rates to other chips.
constexpr double kClockHz = 1.62e9;
constexpr double kTileCycles = 2000;     // of a tile beside its steps: drain, results
constexpr double kCellCycles = 0.8;      // what bringing a cell takes from the math
constexpr double kL2BytesPerCycle = 22;  // of weights and windows to a multiprocessor
constexpr double kLaunchMs = 0.004;      // of each kernel
constexpr double kBytesPerMs = 3.0e9;
constexpr double kPackBytesPerMs = 0.4e9;  // fprop; dgrad reads filters across
constexpr double kPackAcrossPerMs = 0.18e9;

// Those that differ by type.
struct Costs {
  double pixel_cycles;  // of a tile beside its steps, for each pixel of a warpgroup
  double line_cycles;   // the same of a tile that is a piece of one row
  double round_cycles;  // until a load warp's cells are there
  double alone_cycles;  // the same where no weights are loaded beside them
  double split_cycles;  // to add the sums of a cluster
  double pointwise;     // a single tap: the loads are not hidden
  double apart;         // the same where results are no neighbours
  double cut_sectors;   // more to write in pieces of several unaligned rows
};
constexpr Costs kTf32Costs = {18, 18, 2600, 1800, 2500, 1.5, 1.5, 0.4};
constexpr Costs kPreciseCosts = {18, 18, 2600, 1800, 2500, 1.25, 1.8, 0.4};
constexpr Costs kCostsOf16Bits = {7, 2.5, 1650, 1300, 12000, 1.2, 1.2, 1.4};

const Costs& costs_of(const Plan& plan) {
  if (plan.type != DataType::kFloat32) return kCostsOf16Bits;
  return plan.precise ? kPreciseCosts : kTf32Costs;
}

// Where weights stay, and where a window has many taps, a larger L1 cache gains more than more
// windows on the way.
constexpr int kFewStages = 5;

std::string_view name_of(Share share) {
  switch (share) {
    case Share::kChannels:
      return "channels";
    case Share::kImages:
      return "images";
    case Share::kRows:
      return "rows";
    case Share::kColumns:
      return "columns";
  }
  return "";
}

// One launch; `read` are the bytes that it takes from source and filter.
double estimate_ms(const Plan& plan, const Arguments& args, double read, const Chip& chip) {
  const Tile& tile = plan.tile;
  const Costs& costs = costs_of(plan);
  const double steps = static_cast<double>(args.split_chunks) * args.taps;
  const int products = plan.precise ? 3 : 1;
  const double math = steps * products * tile.instructions * tile.width;
  const bool resident = resident_steps(tile.width) > 0;
  const double rounds = static_cast<double>(ceil_div(args.window_cells, kLoadThreads));
  const double load =
      args.split_chunks * rounds * (resident ? costs.alone_cycles : costs.round_cycles) /
      (plan.precise ? kPrecisePixels : pixels_in_flight(tile.instructions, tile.width));
  const double weights = resident ? 0 : steps * kMathGroups * kStepBytes;
  const double brought = weights + double{kChunkBytes} * args.split_chunks * args.window_cells;
  const double cycles =
      std::max({math, load, brought / (kL2BytesPerCycle * l2_scale(chip))}) + kTileCycles +
      (args.one_line ? costs.line_cycles : costs.pixel_cycles) * tile.instructions * tile.width +
      kCellCycles * args.split_chunks * args.window_cells +
      (plan.splits > 1 ? costs.split_cycles : 0);
  const double clusters = std::floor(static_cast<double>(chip.multiprocessors) / plan.splits);
  const double waves = std::ceil(args.tiles / clusters);
  // Blocks share the sectors of 32 bytes at the ends of an unaligned output's pieces of rows; the
  // phases of a stride share them all.
  const int32_t sector = 32 / static_cast<int32_t>(args.element_bytes());
  const bool cut = args.folded.step % sector != 0 || args.destination_c % sector != 0;
  const double written =
      static_cast<double>(args.element_bytes() * args.images) * args.groups * args.rows *
      args.folded.pixels * (args.folded.columns ? args.h : args.w).outputs *
      (std::min(args.destination_w, sector) +
       (cut ? (args.one_line ? 0 : costs.cut_sectors) + static_cast<double>(sector) / args.w.tile
            : 0));
  const double pointwise = args.taps > 1             ? 1
                           : args.destination_w == 1 ? costs.pointwise
                                                     : costs.apart;
  const double clock_hz = kClockHz * clock_scale(chip);
  const double bytes_per_ms = kBytesPerMs * memory_scale(chip);
  return pointwise * std::max(waves * cycles / clock_hz * 1e3, (read + written) / bytes_per_ms) +
         kLaunchMs;
}

// Of the gradient's or the result's elements.
double result_bytes(const Conv2dProblem& p, Direction direction) {
  const double images = static_cast<double>(p.n * size_of(p.type));
  return direction == Direction::kFprop ? images * static_cast<double>(p.k * p.p() * p.q())
                                        : images * static_cast<double>(p.c * p.h * p.w);
}

// All launches, that of the packing and that of zeros.
double estimate_ms(const Conv2dProblem& problem, const Plan& plan,
                   const std::vector<Launch>& launches, size_t phases, bool has_zeros,
                   const Chip& chip) {
  const double result = result_bytes(problem, plan.direction);
  const double read = (problem.bytes() - result) * static_cast<double>(phases) /
                      static_cast<double>(launches.size());
  const double packed_per_ms =
      (plan.direction == Direction::kFprop ? kPackBytesPerMs : kPackAcrossPerMs) *
      clock_scale(chip);
  double ms = static_cast<double>(plan.workspace_bytes) / packed_per_ms + kLaunchMs;
  for (const Launch& launch : launches) ms += estimate_ms(plan, launch.arguments, read, chip);
  if (has_zeros) ms += result / (kBytesPerMs * memory_scale(chip)) + kLaunchMs;
  return ms;
}

// As many windows as fit in shared memory with each launch's other parts; 0: too few to run.
int stages_of(const std::vector<Launch>& launches, const Tile& tile, bool precise) {
  int64_t stages = resident_steps(tile.width) > 0 ? kFewStages : kMaxStages;
  bool one_tap = false;
  for (const Launch& launch : launches) {
    const Arguments& args = launch.arguments;
    if (args.streams) stages = std::min<int64_t>(stages, kFewStages);
    const int64_t room = kMaxShared - shared_bytes(args);
    stages = std::min(stages, room / args.stage_bytes());
    one_tap = one_tap || args.taps == 1;
  }
  // With a single tap, three windows are in use at a time, of precise plans four.
  return stages < (one_tap ? (precise ? 4 : 3) : 2) ? 0 : static_cast<int>(stages);
}

struct FoldChoice {
  int count = 1;
  bool columns = false;
};

// The folds of a problem whose groups have too few rows for the instruction, none first.
std::vector<FoldChoice> folds_of(const Gather& gather, const std::vector<Phase>& phases) {
  constexpr int64_t kMostLaunches = 16;  // more would each be too short
  std::vector<FoldChoice> folds = {{}};
  const Phase& first = phases.front();  // has the most pixels, and so has its first part
  const int64_t rows = folded_channels(gather.rows);
  for (int count = 2; count * rows <= kRowsOfGroup; count *= 2) {
    const Fold fold = make_fold(gather.axis_h, count);
    const auto launches = static_cast<int64_t>(phases.size());
    const bool fills = ceil_div(first.h.pixels, fold.parts) >= count;
    if (fills && fold.parts * launches <= kMostLaunches) folds.push_back({count, false});
    // Of columns where more taps share the zeros, but not in parts: each would write every second
    // pixel of a row or fewer.
    if (first.w.taps > first.h.taps && make_fold(gather.axis_w, count).parts == 1 &&
        first.w.pixels >= count && launches <= kMostLaunches) {
      folds.push_back({count, true});
    }
  }
  return folds;
}

bool has_instance(int instructions, int width, bool precise) {
  return precise ? instructions == 2 && width != 104 : instructions == 2 || width != 104;
}

// Calls body(tile) for each arrangement of a warpgroup's instructions.
template <class Body>
void for_each_tile_shape(bool precise, Body body) {
  for (const int width : {64, 56, 104}) {
    for (const int instructions : {4, 2}) {
      if (!has_instance(instructions, width, precise)) continue;
      for (const bool strips : {true, false}) {
        const int rows = strips ? width / 8 : 1;
        const int columns = strips ? 8 : width;
        for (int images = 1; images <= instructions; images *= 2) {
          for (int down = 1; down * images <= instructions; down *= 2) {
            const int across = instructions / images / down;
            for (const Share share :
                 {Share::kChannels, Share::kImages, Share::kRows, Share::kColumns}) {
              body(Tile{.width = width,
                        .instructions = instructions,
                        .strips = strips,
                        .images = images,
                        .rows = down * rows,
                        .columns = across * columns,
                        .share = share});
            }
          }
        }
      }
    }
  }
}

bool fits_32_bits(int64_t value) { return value <= std::numeric_limits<int32_t>::max(); }

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  const Tile& t = plan.tile;
  os << plan.direction << (plan.precise ? " precise" : "") << " tile=" << t.images << 'x' << t.rows
     << 'x' << t.columns << '=' << t.instructions << 'x' << t.width
     << (t.strips ? " strips" : " rows") << " share=" << name_of(t.share);
  if (plan.fold > 1) os << " fold=" << plan.fold << (plan.fold_columns ? " columns" : "");
  if (plan.splits > 1) os << " splits=" << plan.splits;
  return os << " stages=" << plan.stages << " workspace=" << plan.workspace_bytes;
}

std::vector<Plan> make_plans(const Conv2dProblem& whole, Direction direction, const Chip& chip,
                             bool tf32) {
  const Conv2dProblem problem = flattened(whole);
  const bool precise = problem.type == DataType::kFloat32 && !tf32;
  const std::vector<Phase> phases = tapped_phases(problem, direction);
  const bool has_zeros = make_zero_arguments(problem, direction).has_value();
  const int64_t chunks =
      ceil_div(direction == Direction::kFprop ? problem.group_c() : problem.group_k(),
               chunk_of(problem.type));
  std::vector<Plan> plans;
  const auto add = [&](const Tile& tile, const FoldChoice& fold) {
    const int images = tile.images * (tile.share == Share::kImages ? kMathGroups : 1);
    const auto spans = [&](const Strides& s, int64_t h, int64_t w) {
      return (images - 1) * s.n + plane_span(s, h, w);
    };
    if (!fits_32_bits(spans(problem.input, problem.h, problem.w)) ||
        !fits_32_bits(spans(problem.output, problem.p(), problem.q()))) {
      return;
    }
    Plan plan{.direction = direction,
              .type = problem.type,
              .precise = precise,
              .tile = tile,
              .fold = fold.count,
              .fold_columns = fold.columns};
    plan.stages = 0;
    const std::vector<Launch> empty = make_launches(problem, plan);
    if (empty.empty()) return;
    plan.stages = stages_of(empty, tile, precise);
    if (plan.stages == 0) return;
    for (int splits = 1; splits <= kMaxSplits; splits *= 2) {
      if (splits > 1 && !may_split(tile.instructions, tile.width)) break;
      if ((splits - 1) * ceil_div(chunks, splits) >= chunks) break;  // one would be idle
      plan.splits = splits;
      const std::vector<Launch> launches = make_launches(problem, plan);
      if (launches.empty()) continue;
      plan.workspace_bytes = workspace_bytes(launches);
      plan.estimated_ms = estimate_ms(problem, plan, launches, phases.size(), has_zeros, chip);
      plans.push_back(plan);
    }
  };
  for (const FoldChoice& fold : folds_of(make_gather(problem, direction), phases)) {
    for_each_tile_shape(precise, [&](const Tile& tile) { add(tile, fold); });
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Plan& a, const Plan& b) { return a.estimated_ms < b.estimated_ms; });
  return plans;
}

std::vector<Plan> best_of_kinds(const std::vector<Plan>& plans, size_t count) {
  constexpr double kHopeless = 1.3;  // times the best: not for its kind's sake alone
  const auto alike = [](const Plan& a, const Plan& b) {
    return a.tile.width == b.tile.width && a.tile.instructions == b.tile.instructions &&
           a.tile.strips == b.tile.strips && a.tile.share == b.tile.share && a.fold == b.fold &&
           a.fold_columns == b.fold_columns;
  };
  std::vector<Plan> firsts, others;
  for (const Plan& plan : plans) {
    const bool known = std::any_of(firsts.begin(), firsts.end(),
                                   [&](const Plan& first) { return alike(plan, first); });
    const bool hopeless = plan.estimated_ms > kHopeless * plans.front().estimated_ms;
    (known || hopeless ? others : firsts).push_back(plan);
  }
  firsts.insert(firsts.end(), others.begin(), others.end());
  if (firsts.size() > count) firsts.resize(count);
  return firsts;
}

}  // namespace haloconv::sm90
