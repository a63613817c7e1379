#include "conv2d/families/channels_last_tf32_wgrad/plan.h"

#include <algorithm>
#include <optional>
#include <ostream>

#include "conv2d/fastest_first.h"
#include "conv2d/geometry/flat_pixels.h"
#include "conv2d/geometry/hopper_channels.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/tap_steps.h"

namespace haloconv::sm90::channels_last_tf32_wgrad {

namespace {

constexpr int64_t kAlignment = 1024;
constexpr int64_t kMostWorkspaceBytes = int64_t{128} << 20;
// The tensor core's sums truncate: so many pixels' products at most before they are added in
// float32 (benchmarks/NOTES.md: the same for rows innermost).
constexpr int64_t kMostPixels = 16384;
constexpr int32_t kMostBoxSide = 256;
constexpr int32_t kGroups[] = {8, 4, 2};  // of eight pixels in a patch of rows
constexpr int32_t kMostGroups = 8;        // in one of images side by side
constexpr double kLeastWaste = 0.04;      // of pixels, for which images are put side by side
constexpr int32_t kLeastGroups = 4;       // of such a patch: two took 1.26 times the estimate
constexpr int32_t kLeastStages = kTransposed + 1;

bool is_taken(const Strides& strides, int64_t n, int64_t h, int64_t w) {
  const auto is_multiple = [](int64_t stride, int64_t extent) {
    return extent == 1 || (stride > 0 && stride % 4 == 0);
  };
  return is_multiple(strides.n, n) && is_multiple(strides.h, h) && is_multiple(strides.w, w);
}

// Filter rows from a tile's first tap to its last, at most.
int32_t rows_of_taps(int32_t tile_taps, int64_t r, int64_t s) {
  int64_t most = 1;
  for (int64_t first = 0; first < r * s; first += tile_taps) {
    const int64_t last = std::min(first + tile_taps, r * s) - 1;
    most = std::max(most, last / s - first / s + 1);
  }
  return static_cast<int32_t>(most);
}

struct Patch {
  int32_t columns, rows, images;
  bool images_innermost;
  int32_t groups() const { return columns * rows * images / 8; }
};

class Planner {
 public:
  Planner(const Conv2dProblem& problem, const Chip& chip, bool with_bias, bool every)
      : p_(problem),
        steps_r_(problem.r, problem.stride_h, problem.dilation_h),
        steps_s_(problem.s, problem.stride_w, problem.dilation_w),
        chip_(chip),
        with_bias_(with_bias),
        every_(every),
        flat_(is_flat(problem)) {}

  std::vector<Plan> run() {
    // Filters of which no two taps meet the same pixels have tiles of one tap alone; so have those
    // of several kinds of taps, too, whose kinds may differ in size.
    const bool shares = steps_r_.of_kind * steps_s_.of_kind > 1;
    const bool has_kinds = steps_r_.kinds * steps_s_.kinds > 1;
    for (const Tile& tile : kTiles) {
      // Not where a smaller one is half empty.
      if (tile.instructions > 1 && p_.k <= kInstructionColumns) continue;
      if (shares) consider(tile, tile.row_blocks());
      if (!shares || has_kinds) consider(tile, 1);
    }
    sort_fastest_first(plans_);
    return std::move(plans_);
  }

 private:
  // With at most so many taps of a kind in a tile.
  void consider(const Tile& tile, int64_t most_taps) {
    const std::optional<Plan> rows = by_rows(tile, most_taps);
    // Images side by side only where rows waste pixels.
    std::optional<Plan> images;
    if (every_ || !rows || wasted_pixels(rows->args) >= kLeastWaste) {
      images = by_images(tile, most_taps);
    }
    const bool rows_win = rows && (!images || rows->estimated_ms <= images->estimated_ms);
    if (rows && (every_ || rows_win)) plans_.push_back(*rows);
    if (images && (every_ || !rows_win)) plans_.push_back(*images);
  }

  // The largest patch that fits.
  std::optional<Plan> by_rows(const Tile& tile, int64_t most_taps) const {
    std::optional<Plan> plan;
    for (const int32_t groups : kGroups) {
      const Patch patch{flat_ ? groups * 8 : 8, flat_ ? 1 : groups, 1, false};
      if (!plan) plan = plan_of(tile, most_taps, patch);
    }
    return plan;
  }

  // The fastest by the estimates.
  std::optional<Plan> by_images(const Tile& tile, int64_t most_taps) const {
    std::optional<Plan> best;
    if (flat_) return best;
    // Squares, where they fill the output.
    if (p_.p() % 2 == 0 && p_.q() % 2 == 0) {
      best = plan_of(tile, most_taps, {2, 2, 8, true});
      if (best && best->args.walk != Walk::kSquares) best.reset();
    }
    for (int32_t images = 8; images <= std::min<int64_t>(p_.n, 16); images += 8) {
      const auto most = static_cast<int32_t>(std::min<int64_t>(p_.q(), kMostGroups));
      for (int32_t columns = 1; columns <= most; ++columns) {
        const Patch patch = {columns, 1, images, true};
        if (patch.groups() % 2 != 0 || patch.groups() > kMostGroups) continue;
        if (patch.groups() < kLeastGroups && !every_) continue;
        const std::optional<Plan> plan = plan_of(tile, most_taps, patch);
        // One patch on its way was not measured to be enough where others leave room for more.
        if (plan && best && plan->args.stages == kLeastStages && !every_) continue;
        if (plan && (!best || plan->estimated_ms < best->estimated_ms)) best = plan;
      }
    }
    return best;
  }

  // Of the pixels of images, the part that patches have beyond grad_output.
  static double wasted_pixels(const Arguments& args) {
    const int64_t pixels =
        int64_t{args.strips.divisor} * args.columns * args.bands.divisor * args.rows;
    return static_cast<double>(pixels) / (static_cast<double>(args.p) * args.q) - 1;
  }

  std::optional<Plan> plan_of(const Tile& tile, int64_t most_taps, const Patch& patch) const {
    Plan plan{.tile = tile};
    plan.flat = flat_;
    Arguments& args = plan.args;
    set_problem(args, p_);
    args.with_bias = with_bias_;
    set_patch(args, patch);
    const int64_t kinds = set_taps(args, most_taps);
    const int64_t chunks = ceil_div(p_.c, kChunkChannels);
    args.tile_chunks =
        static_cast<int32_t>(std::min<int64_t>(chunks, tile.row_blocks() / args.tile_taps));
    const int64_t columns = args.kind_columns.divisor, rows = args.kind_taps / columns;
    const int64_t halo_w = args.tile_taps == 1 ? 0 : (columns - 1) * args.shift_w;
    const int64_t halo_h = (rows_of_taps(args.tile_taps, rows, columns) - 1) * args.shift_h;
    const int64_t box_w = args.columns + halo_w, box_h = args.rows + halo_h;
    if ((box_w - 1) * p_.stride_w >= kMostBoxSide || (box_h - 1) * p_.stride_h >= kMostBoxSide) {
      return std::nullopt;
    }
    args.box_w = narrow(box_w);
    plan.box_h = narrow(box_h);
    set_groups(args, patch);
    args.walk = walk_of(tile, args);
    args.column_pixels = patch.images_innermost ? patch.images : 1;
    args.group_pixels = flat_ || patch.images_innermost ? 8 : args.box_w;
    args.grad_output_bytes = args.groups * 8 * kPixelBytes;
    const int32_t box_bytes = args.box_w * plan.box_h * patch.images * kPixelBytes;
    args.input_bytes = narrow(round_up(box_bytes, 1024));
    args.copied_bytes =
        tile.columns() / 32 * args.grad_output_bytes + 2 * args.tile_chunks * box_bytes;
    const int64_t others = kAlignment + kTransposed * int64_t{args.transposed_bytes(tile)};
    args.stages = static_cast<int32_t>(
        std::min<int64_t>((kMostSharedBytes - others) / args.stage_bytes(tile), kMaxStages));
    if (args.stages < kLeastStages) return std::nullopt;
    plan.shared_bytes = others + int64_t{args.stages} * args.stage_bytes(tile);

    const int64_t tiles_of_k = ceil_div(p_.k, tile.columns());
    const int64_t tiles_of_c = ceil_div(chunks, args.tile_chunks);
    args.tiles_of_k = FastDiv(tiles_of_k), args.tiles_of_c = FastDiv(tiles_of_c);
    args.tiles = narrow(tiles_of_k * tiles_of_c * kinds * args.tiles_of_kind.divisor);
    return split(plan);
  }

  // Of a tile with all taps of a 3x3 filter.
  static Walk walk_of(const Tile& tile, const Arguments& args) {
    const bool has_3x3 = args.tile_taps == 9 && args.kind_taps == 9 &&
                         args.kind_columns.divisor == 3 && args.shift_h == 1 && args.shift_w == 1;
    if (!has_3x3 || tile.blocks != 3) return Walk::kGroups;
    if (args.images_innermost) return args.rows == 2 ? Walk::kSquares : Walk::kGroups;
    return args.groups == 8 ? Walk::kRows : Walk::kGroups;
  }

  // How many kinds there are. Of tiles of one tap all taps count as one kind, and none shares.
  int64_t set_taps(Arguments& args, int64_t most_taps) const {
    const bool shares = most_taps > 1;
    const int64_t rows = shares ? steps_r_.of_kind : p_.r,
                  columns = shares ? steps_s_.of_kind : p_.s;
    args.kind_columns = FastDiv(columns);
    args.kind_taps = narrow(rows * columns);
    args.step_r = shares ? steps_r_.step : 1, args.step_s = shares ? steps_s_.step : 1;
    args.shift_h = shares ? steps_r_.shift : 0, args.shift_w = shares ? steps_s_.shift : 0;
    args.kinds_s = FastDiv(shares ? steps_s_.kinds : 1);
    args.tile_taps = static_cast<int32_t>(std::min<int64_t>(args.kind_taps, most_taps));
    args.tiles_of_kind = FastDiv(ceil_div(args.kind_taps, args.tile_taps));
    return shares ? steps_r_.kinds * steps_s_.kinds : 1;
  }

  void set_patch(Arguments& args, const Patch& patch) const {
    const int64_t q = flat_ ? p_.n * p_.p() * p_.q() : p_.q(), rows = flat_ ? 1 : p_.p();
    args.columns = patch.columns, args.rows = patch.rows, args.images = patch.images;
    args.images_innermost = patch.images_innermost;
    const int64_t strips = ceil_div(q, args.columns), bands = ceil_div(rows, args.rows);
    args.strips = FastDiv(strips), args.bands = FastDiv(bands);
    args.patches = narrow(strips * bands * (flat_ ? 1 : ceil_div(p_.n, patch.images)));
  }

  // Beyond the last image, and the last of all pixels in one row, the input has no pixels either.
  void set_groups(Arguments& args, const Patch& patch) const {
    args.groups = args.last_groups = patch.groups();
    if (flat_) return;
    const int64_t last_columns = p_.q() - (args.strips.divisor - 1) * int64_t{args.columns};
    const int64_t last_rows = p_.p() - (args.bands.divisor - 1) * int64_t{args.rows};
    if (patch.images_innermost) {
      args.last_groups = narrow(last_columns * patch.rows * patch.images / 8);
    } else {
      args.last_groups = narrow(last_rows);
      args.last_columns = narrow(last_columns % args.columns);
    }
  }

  // Into as many parts of the pixels as fill the chip some times; none where the sums of these have
  // no room.
  std::optional<Plan> split(Plan& plan) const {
    Arguments& args = plan.args;
    const int64_t patch_pixels = args.groups * 8;
    const int64_t least = ceil_div(args.patches, std::max<int64_t>(kMostPixels / patch_pixels, 1));
    std::optional<Plan> best;
    for (int64_t waves = 1; waves <= 4; ++waves) {
      const int64_t wanted = chip_.multiprocessors * waves / args.tiles;
      const int64_t splits = std::min<int64_t>(std::max({wanted, least, int64_t{1}}), args.patches);
      args.splits = static_cast<int32_t>(splits);
      plan.workspace_bytes =
          splits * (args.tiles * plan.tile.values() + (with_bias_ ? p_.k : 0)) * 4;
      if (plan.workspace_bytes > kMostWorkspaceBytes) break;
      plan.estimated_ms = estimate_ms(plan);
      if (!best || plan.estimated_ms < best->estimated_ms) best = plan;
    }
    return best;
  }

  double estimate_ms(const Plan& plan) const {
    // Fitted to 368 plans of 66 layers on an H200 (benchmarks/NOTES.md).
    constexpr double kLoadBytes = 50;      // from L2, of a multiprocessor in a cycle
    constexpr double kBlockCycles = 4100;  // of its begin and end
    constexpr double kPatchCycles = 410;   // of a patch's begin and end
    constexpr double kFewerCycles = 23;    // what each group costs that a patch has less
    constexpr double kBlocked = 1.25;      // what waits for shared memory add
    constexpr double kLaunchMs = 0.0046;   // of both kernels
    constexpr double kSumPasses = 1.4;     // over partial sums, which stay in the L2 cache
    const Arguments& args = plan.args;
    const double blocks = plan.tile.row_blocks(), columns = plan.tile.instructions;
    // Of a group: the products, or the reading of their operands and the transposition.
    const double math = 32 * blocks * columns;
    const double shared = 16 * blocks * (columns + 1) + 24 * columns;
    const double group = args.walk == Walk::kGroups ? std::max(math, shared) * kBlocked : math;
    const double fewer = std::max(8 - args.groups, 0) * kFewerCycles;
    const double patch =
        kPatchCycles + std::max(args.groups * group + fewer, args.copied_bytes / kLoadBytes);
    const auto patches = static_cast<double>(ceil_div(args.patches, args.splits));
    const auto waves =
        static_cast<double>(ceil_div(int64_t{args.splits} * args.tiles, chip_.multiprocessors));
    const double cycles = waves * (kBlockCycles + patches * patch);
    const double sums_ms =
        kSumPasses * static_cast<double>(plan.workspace_bytes) / chip_.memory_rate * 1e3;
    const double memory_ms = read_bytes() / (chip_.memory_rate * 0.9) * 1e3;
    return kLaunchMs + sums_ms + std::max(memory_ms, cycles / chip_.clock_hz * 1e3);
  }

  // Strided taps may meet a part of the input alone.
  double read_bytes() const {
    const auto met = [](int64_t taps, int64_t stride) {
      return std::min(1.0, static_cast<double>(taps) / static_cast<double>(stride));
    };
    const double part = met(p_.r, p_.stride_h) * met(p_.s, p_.stride_w);
    return p_.bytes() -
           (1 - part) * static_cast<double>(p_.n * p_.c) * static_cast<double>(p_.h * p_.w) * 4;
  }

  const Conv2dProblem& p_;
  TapSteps steps_r_, steps_s_;
  const Chip& chip_;
  bool with_bias_, every_, flat_;
  std::vector<Plan> plans_;
};

}  // namespace

std::string declines(const Conv2dProblem& problem, bool tf32, const Chip& chip) {
  if (std::string reason = hopper_channels_decline(problem, Direction::kWgrad, chip, tf32);
      !reason.empty()) {
    return reason;
  }
  if (problem.type != DataType::kFloat32) return "the element type is not float32";
  if (problem.input.c != 1 || problem.output.c != 1 || problem.filter.c != 1) {
    return "channels are not innermost";
  }
  if (problem.c % 4 != 0 || problem.k % 4 != 0) {
    return "input or output channels are no multiple of 4";
  }
  if (!is_taken(problem.input, problem.n, problem.h, problem.w) ||
      !is_taken(problem.output, problem.n, problem.p(), problem.q())) {
    return "a tensor's strides are no positive multiples of 4";
  }
  if (problem.stride_h > 8 || problem.stride_w > 8) return "its stride is more than 8";
  if (problem.n * problem.p() * problem.q() >= int64_t{1} << 31) {
    return "the output has 2^31 pixels or more";
  }
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool every) {
  return Planner(problem, chip, with_bias, every).run();
}

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  const Arguments& args = plan.args;
  return os << "wgrad tile=" << plan.tile.warpgroups << 'x' << plan.tile.blocks << 'x'
            << plan.tile.columns() << " taps=" << args.tile_taps << " chunks=" << args.tile_chunks
            << " patch=" << args.images << 'x' << args.rows << 'x' << args.columns
            << (args.images_innermost ? " images innermost" : "") << " stages=" << args.stages
            << " splits=" << args.splits << " workspace=" << plan.workspace_bytes;
}

}  // namespace haloconv::sm90::channels_last_tf32_wgrad
