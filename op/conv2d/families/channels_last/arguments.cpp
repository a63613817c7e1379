#include "conv2d/families/channels_last/arguments.h"

#include <algorithm>
#include <compare>
#include <vector>

#include "conv2d/families/channels_last/phases.h"
#include "conv2d/families/channels_last/prefetch.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::channels_last {

namespace {

// An axis of a phase: the source offsets of its taps, which are not negative, from its first pixel.
struct Taps {
  int32_t first_source;  // what pixel 0 meets by the least offset
  int32_t first_offset;  // of the first tap
  int32_t most;          // the greatest offset
};

Taps taps_of(const Axis& axis, const AxisPhase& phase) {
  const int32_t last_shift = phase.first_shift + (phase.taps - 1) * axis.shift_step;
  const int32_t least = std::min(phase.first_shift, last_shift);
  return {.first_source = phase.origin + least,
          .first_offset = phase.first_shift - least,
          .most = std::max(phase.first_shift, last_shift) - least};
}

// Whether the only phase's pixels, as they are numbered, lie one after the other in memory.
bool is_whole(const std::vector<Phase>& phases, const Gather& gather) {
  const Strides& strides = gather.destination;
  const Phase& phase = phases.front();
  return phases.size() == 1 && gather.axis_h.pixel_step == 1 && gather.axis_w.pixel_step == 1 &&
         strides.h == strides.w * phase.w.pixels && strides.n == strides.h * phase.h.pixels;
}

// Of a tile.
int64_t steps_of(const Phase& phase, const Gather& gather, const Tile& tile) {
  return int64_t{phase.h.taps} * phase.w.taps * ceil_div(gather.channels, tile.depth);
}

// Of tiles whose results are copied. Where they have more, the products take so long that results
// written from the registers are hidden, and the ring needs its last stage: 1x1 layers of 8 steps
// took 1.02 of the time as forward passes, 0.98 as input gradients, of 16 steps 1.02 both (H200).
int64_t most_steps(Direction direction) { return direction == Direction::kDgrad ? 8 : 6; }

// Of alternating tiles whose first stages are prefetched though several blocks want the same
// source. With 3 to 8 steps input gradients took 0.97 of the time (from 0.92 to 1.02), with 2 steps
// 1.02 and with 9 and more 1.00 (an H100; an H200 alike). Tiles of 64 pixels took 1.05 of it with 3
// steps, 1.00 in the mean with 4 to 8; blocks that have one tile lose by it, as in prefetch.h.
constexpr int64_t kLeastPrefetchedSteps = 3;
constexpr int32_t kLeastPrefetchedPixels = 128;

// The most steps that one of the blocks has, to which tiles are dealt out in turn, and how many
// blocks have so many.
struct Busiest {
  int64_t steps = 0, blocks = 0;
  auto operator<=>(const Busiest&) const = default;
};

// If the last `moved` pixel tiles of the second phase come before the first phase.
Busiest busiest_of(const Launch& launch, const Tile& tile, int64_t blocks, int32_t moved) {
  const Arguments& args = launch.args;
  const int32_t channel_tiles = args.channel_tiles.divisor;
  // Of all blocks alike, and what each has more than the block before it.
  int64_t of_all = 0;
  std::vector<int64_t> more(blocks + 1);
  int64_t next = 0;  // the block that takes the next tile
  const auto deal = [&](const TilePhase& phase, int64_t pixel_tiles) {
    const int64_t each = phase.taps_h * phase.taps_w * ceil_div(args.channels, tile.depth);
    const int64_t tiles = pixel_tiles * channel_tiles, rest = tiles % blocks;
    of_all += tiles / blocks * each;
    more[next] += each;
    next += rest;
    if (next >= blocks) {
      next -= blocks;
      more[0] += each;
    }
    more[next] -= each;
  };
  deal(args.phase[1], moved);
  for (int32_t i = 0; i < args.phases; ++i) {
    const int32_t end =
        i + 1 < args.phases ? args.phase[i + 1].first_tile : args.tiles / channel_tiles;
    deal(args.phase[i], end - args.phase[i].first_tile - (i == 1 ? moved : 0));
  }
  Busiest busiest{.steps = -1, .blocks = 0};
  int64_t steps = of_all;
  for (int64_t block = 0; block < blocks; ++block) {
    steps += more[block];
    if (steps > busiest.steps) busiest = {.steps = steps, .blocks = 0};
    busiest.blocks += steps == busiest.steps;
  }
  return busiest;
}

// Tiles are dealt out phase by phase, the longest first. Where blocks that got no tile of the first
// phase have least to do and others get the last tiles, some of the second phase's tiles are put
// first, as a phase of their own.
void balance(Launch& launch, const Tile& tile, int64_t blocks) {
  // With 3 rounds layers took 0.90 to 0.97 of the time, with 6 1.03 (an H200).
  constexpr int64_t kMostRounds = 4;
  Arguments& args = launch.args;
  if (args.phases < 3 || args.phases == kMaxPhases || args.tiles <= blocks ||
      args.tiles > kMostRounds * blocks || args.phase[args.phases - 1].taps_h == 0) {
    return;
  }
  const int32_t first = args.phase[1].first_tile, second = args.phase[2].first_tile - first;
  const int64_t most = std::min<int64_t>(second, blocks / args.channel_tiles.divisor);
  const Busiest before = busiest_of(launch, tile, blocks, 0);
  Busiest least = before;
  int32_t moved = 0;
  for (int32_t i = 1; i <= most; ++i) {
    const Busiest with = busiest_of(launch, tile, blocks, i);
    if (with < least) {
      least = with;
      moved = i;
    }
  }
  if (least.steps == before.steps) return;
  std::shift_right(args.phase, args.phase + args.phases + 1, 1);
  std::shift_right(launch.columns, launch.columns + args.phases + 1, 1);
  ++args.phases;
  args.phase[0] = args.phase[2];
  launch.columns[0] = launch.columns[2];
  args.phase[0].first_tile = moved - second;  // so tile 0 is the first of those moved
  args.phase[1].first_tile = moved;
  args.phase[2].first_tile = moved + first;
}

}  // namespace

OrderedPhases::OrderedPhases(const Conv2dProblem& problem, Direction direction)
    : gather(make_gather(problem, direction)), phases(make_phases(problem, direction)) {
  std::erase_if(phases, [](const Phase& phase) { return phase.pixels == 0; });
  std::stable_sort(phases.begin(), phases.end(),
                   [](const Phase& a, const Phase& b) { return a.reduction > b.reduction; });
}

std::vector<Launch> make_launches(const Conv2dProblem& problem, Direction direction,
                                  const Tile& tile, int multiprocessors) {
  return make_launches(problem, direction, OrderedPhases(problem, direction), tile,
                       multiprocessors);
}

std::vector<Launch> make_launches(const Conv2dProblem& problem, Direction direction,
                                  const OrderedPhases& ordered, const Tile& tile,
                                  int multiprocessors) {
  const Gather& gather = ordered.gather;
  const std::vector<Phase>& phases = ordered.phases;
  std::vector<Launch> launches;
  for (size_t first = 0; first < phases.size(); first += kMaxPhases) {
    Launch& launch = launches.emplace_back();
    Arguments& args = launch.args;
    args.destination_n = gather.destination.n;
    args.destination_h = gather.destination.h * gather.axis_h.pixel_step;
    args.destination_w = gather.destination.w * gather.axis_w.pixel_step;
    args.channels = gather.channels;
    args.results.channels = gather.rows;
    args.step_h = gather.axis_h.source_step;
    args.step_w = gather.axis_w.source_step;
    args.tap_step_h = gather.axis_h.tap_step;
    args.tap_step_w = gather.axis_w.tap_step;
    args.offset_step_h = gather.axis_h.shift_step;
    args.offset_step_w = gather.axis_w.shift_step;
    const int64_t channel_tiles = ceil_div(gather.rows, tile.channels);
    args.channel_tiles = FastDiv(channel_tiles);
    args.phases = static_cast<int32_t>(std::min<size_t>(kMaxPhases, phases.size() - first));
    int64_t pixel_tiles = 0;
    for (int32_t i = 0; i < args.phases; ++i) {
      const Phase& phase = phases[first + i];
      TilePhase& to = args.phase[i];
      to.first_tile = static_cast<int32_t>(pixel_tiles);
      to.pixels = static_cast<int32_t>(phase.pixels);
      to.plane = phase.plane;
      to.columns = phase.columns;
      to.taps_h = phase.reduction > 0 ? phase.h.taps : 0;
      to.taps_w = phase.w.taps;
      to.tap_h = phase.h.first_tap;
      to.tap_w = phase.w.first_tap;
      to.destination =
          phase.h.first_pixel * gather.destination.h + phase.w.first_pixel * gather.destination.w;
      PixelColumn& column = launch.columns[i];
      column.channels = tile.depth;
      column.pixels = tile.pixels;
      if (to.taps_h > 0) {
        const Taps h = taps_of(gather.axis_h, phase.h), w = taps_of(gather.axis_w, phase.w);
        to.first_h = h.first_source;
        to.first_w = w.first_source;
        to.offset_h = h.first_offset;
        to.offset_w = w.first_offset;
        column.first_h = h.first_source;
        column.first_w = w.first_source;
        column.count_h = phase.h.pixels;
        column.count_w = phase.w.pixels;
        column.step_h = args.step_h;
        column.step_w = args.step_w;
        launch.fits = launch.fits && h.most <= kMaxTapOffset && w.most <= kMaxTapOffset &&
                      fits_im2col(column, gather.source_w, gather.source_h);
      }
      pixel_tiles += ceil_div(phase.pixels, tile.pixels);
    }
    args.tiles = static_cast<int32_t>(pixel_tiles * channel_tiles);
    const int64_t steps = steps_of(phases.front(), gather, tile);
    launch.copies_results =
        tile.alternates && is_whole(phases, gather) && steps <= most_steps(direction);
    const int64_t room = launch.copies_results ? stage_room_beside_results(tile)
                                               : stage_room(tile, args.tiles, multiprocessors);
    args.stages = static_cast<int32_t>(std::min<int64_t>(kMaxStages, room / stage_bytes(tile)));
    const bool has_several_tiles = args.tiles > multiprocessors * blocks_of(tile);
    args.prefetched_stages =
        prefetched_stages(problem, direction, channel_tiles, has_several_tiles, args.stages);
    if (tile.alternates && args.prefetched_stages == 0 && has_several_tiles &&
        steps >= kLeastPrefetchedSteps && steps <= most_steps(direction) &&
        tile.pixels >= kLeastPrefetchedPixels) {
      args.prefetched_stages = kFewPrefetched;
    }
    if (tile.alternates) balance(launch, tile, multiprocessors);
    // What is fused is computed by the same tiles that do not alternate.
    Tile fused = tile;
    fused.alternates = false;
    launch.copies_residual = takes_boxes(fused, direction == Direction::kDgrad) &&
                             args.stages > 1 && is_whole(phases, gather);
  }
  return launches;
}

}  // namespace haloconv::sm90::channels_last
