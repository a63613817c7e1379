// What the planner expects of a launch: rates of instruction and memory, and what the kernels reach
// of them, fitted to times of the reference problems on an H100. On chips whose tensor cores are
// slower for their clock the kernels should reach more: no such chip was measured.
#pragma once

#include <algorithm>
#include <cmath>

#include "conv2d/families/implicit_gemm/arguments.h"
#include "conv2d/families/implicit_gemm/descents/descents.h"
#include "conv2d/families/implicit_gemm/fragments.h"
#include "conv2d/families/implicit_gemm/staged/costs.h"
#include "conv2d/families/implicit_gemm/strips/strips.h"
#include "conv2d/families/implicit_gemm/team_descents/team_descents.h"
#include "conv2d/geometry/warp_instruction.h"
#include "conv2d/rates.h"

namespace haloconv::implicit_gemm {

// What differs between the kernels that gather, those that read windows, and those that stage these
// first (staging.h).
struct Fitted {
  double sustained;      // of the instruction's rate
  double step_cycles;    // of a step, for its barrier
  double chunk_cycles;   // of a window's chunk, while nothing is multiplied
  double tile_cycles;    // of a tile, for its first copies and last results
  double result_cycles;  // to write a result
  double copied_bytes;   // to a multiprocessor's shared memory, in a cycle
  double overlap;        // of a tile's end that other blocks do not hide
};
inline constexpr Fitted kWithGathers{.sustained = 0.43,
                                     .step_cycles = 40,
                                     .chunk_cycles = 0,
                                     .tile_cycles = 4000,
                                     .result_cycles = 0.3,
                                     .copied_bytes = 26,
                                     .overlap = 0.5};
inline constexpr Fitted kWithWindows{.sustained = 0.7,
                                     .step_cycles = 105,
                                     .chunk_cycles = 0,
                                     .tile_cycles = 3700,
                                     .result_cycles = 0.28,
                                     .copied_bytes = 16.4,
                                     .overlap = 0.33};
inline constexpr Fitted kWithStagedWindows{.sustained = 1.05,
                                           .step_cycles = 16,
                                           .chunk_cycles = 1100,
                                           .tile_cycles = 1000,
                                           .result_cycles = 0.48,
                                           .copied_bytes = 16.4,
                                           .overlap = 0.53};

// Of a launch's tiles, if memory is no limit.
inline double launch_ms(const Tile& tile, Access access, const Arguments& args, const Chip& chip,
                        DataType type) {
  constexpr double kElements = 0.62;  // of the rate, where threads gather the source themselves
  // To write a result of gathers by elements, or by lines (wide_lines.h).
  constexpr double kElementCycles = 0.57, kLineCycles = 0.25;
  constexpr double kLatencyCycles = 900;  // from the issue of a copy to its use
  const Windows& windows = args.windows;
  const bool has_windows = windows.count > 0;
  const bool by_elements = access == Access::kElements;
  const Fitted& fitted = !has_windows  ? kWithGathers
                         : by_elements ? kWithStagedWindows
                                       : kWithWindows;
  const double step_depth = double{kRowBytes} / static_cast<double>(size_of(type));
  const double pixel_tiles = std::max(args.pixel_tiles, 1u);
  double steps = 0;  // of a tile, on average
  for (int32_t i = 0; i < args.phase_count; ++i) {
    const Phase& phase = args.phases[i];
    const int32_t next =
        i + 1 < args.phase_count ? args.phases[i + 1].first_tile : int32_t(args.pixel_tiles);
    const double steps_of_tile =
        has_windows ? windows.chunks * windows.depths(phase.h.taps * phase.w.taps) / 2.0
                    : std::ceil(phase.reduction / step_depth);
    steps += steps_of_tile * (next - phase.first_tile) / pixel_tiles;
  }
  const double rate = matrix_rate(chip, type, /*tf32=*/true) * warp_instruction_share(chip) *
                      fitted.sustained * (by_elements && !has_windows ? kElements : 1);
  const double multiprocessors = chip.multiprocessors;
  const auto at_once =
      static_cast<double>(blocks_with_room(chip, blocks_of(tile), shared_bytes(tile, args)));
  const double tiles = pixel_tiles * args.channel_tiles.divisor * args.geometry.groups;
  const double sharing = std::ceil(std::min(tiles, at_once * multiprocessors) / multiprocessors);
  // Few warps leave the tensor cores' latency open.
  const double warps = sharing * tile.threads() / 32;
  const double filled = std::min(1.0, 0.4 + 0.075 * warps);
  // The loop of narrow tiles in TF32 has several steps a round from compute capability 9.0 on
  // (staged/mainloop.cuh).
  constexpr double kOfLongRounds = 0.96;
  const bool has_long_rounds = has_windows && by_elements && type == DataType::kFloat32 &&
                               tile.warp_pixels == 128 && tile.warp_channels == 32 &&
                               chip.compute_capability >= 90;
  const double math =
      (tile.pixels * tile.channels * step_depth / rate / filled + fitted.step_cycles) *
      (has_long_rounds ? kOfLongRounds : 1);
  // Copies: of a step, unless the filter comes as fragments, and the windows' of a tile.
  const double step_bytes = has_fragments(args) ? 0
                            : has_windows       ? filter_stage_bytes(tile)
                                                : stage_bytes(tile);
  const double brought = step_bytes / fitted.copied_bytes;
  const double window_cost =
      by_elements ? staged_window_cost(args.staging.granule, args.shifts_rows) : 1;
  const double window_cycles = has_windows ? windows.bytes / fitted.copied_bytes * window_cost : 0;
  const double latency = kLatencyCycles / ((has_windows ? kFilterStages : args.stages) - 1);
  const double step = std::max(sharing * std::max(math, brought), latency);
  const double chunks = has_windows ? windows.chunks * sharing : 0;
  const double middle =
      std::max(steps * step + chunks * fitted.chunk_cycles, chunks * window_cycles);
  const bool has_lines = windows.log_columns == kLogWideColumns &&
                         has_words(args.geometry, static_cast<int32_t>(size_of(type)), 0);
  const double result = has_lines                     ? kLineCycles
                        : by_elements && !has_windows ? kElementCycles
                                                      : fitted.result_cycles;
  const double ends = fitted.tile_cycles + result * tile.pixels * tile.channels + window_cycles;
  const double rounds = tiles / (sharing * multiprocessors);
  // A last round that is not full takes as long; blocks that are not alike fill it in part.
  const double cycles = (0.5 * (rounds + std::ceil(rounds))) *
                        (middle + ends * sharing * (sharing > 1 ? fitted.overlap : 1));
  return cycles / chip.clock_hz * 1e3;
}

// Of a launch by strips, fitted, with what call_ms() adds, to times on an H200.
inline double strips_ms(const Arguments& args, const Chip& chip, DataType type) {
  // What a row takes of its products' own time, for each byte of results, and besides.
  constexpr double kProducts = 0.83, kByteCycles = 0.03, kRowCycles = 520;
  // That groups take longer where a block has few of them: of one, which was not timed, a guess.
  constexpr double kOfGroups[] = {1.5, 1.12, 1};
  const auto element_bytes = static_cast<int32_t>(size_of(type));
  const Phase& phase = args.phases[0];
  const int64_t tiles = int64_t{args.channel_tiles.divisor} * args.geometry.groups;
  const double rate = matrix_rate(chip, type, /*tf32=*/true) * warp_instruction_share(chip);
  const double products =
      1.0 * phase.reduction * strip_columns(element_bytes) * kStripTile.channels / rate;
  const double bytes =
      1.0 * args.geometry.rows / args.channel_tiles.divisor * kWideColumns * element_bytes;
  const double row = kProducts * products + kByteCycles * bytes + kRowCycles;
  const double rows =
      1.0 * args.pixel_tiles / args.patches[0].rows.divisor * phase.h.pixels * tiles;
  const double busy = std::min<double>(chip.multiprocessors, args.strips.blocks * tiles);
  const double computed = rows / busy * row * kOfGroups[args.strips.groups - 1] / chip.clock_hz;
  // On an H200 stores went at half of a copy's rate at most, with products and without.
  constexpr double kStoreShare = 0.5;
  return std::max(computed, rows * bytes / (kStoreShare * chip.memory_rate)) * 1e3;
}

// Of a launch by descents.
inline double descents_ms(const Arguments& args, const Chip& chip, DataType type) {
  // What a row of the source takes of its products' own time, for all warps of a block. With it
  // the plan expected to be fastest was within 3 % of the fastest of 11 problems on an H200.
  constexpr double kProducts = 1.3;
  // For each result where descents begin before the destination's first column, so that results go
  // one by one: on an H200 such layers took 0.5 cycles a result longer than without padding.
  constexpr double kSingleCycles = 0.5;
  const Phase& phase = args.phases[0];
  const Gather& g = args.geometry;
  const double rate = matrix_rate(chip, type, /*tf32=*/true) * warp_instruction_share(chip);
  const double products =
      1.0 * phase.reduction * kDescentColumns * kDescentChannels * args.strips.groups / rate;
  const double rounds =
      std::ceil(1.0 * args.pixel_tiles / (args.strips.blocks * args.strips.groups));
  const double rows = rounds * (args.strips.rows + kDescentTaps - 1);
  const bool has_lead = descent_lead(g, phase, static_cast<int32_t>(size_of(type))) > 0;
  const double results = 1.0 * phase.pixels * g.rows * g.groups / chip.multiprocessors;
  const double singles = has_lead ? kSingleCycles * results : 0;
  return (rows * kProducts * products + singles) / chip.clock_hz * 1e3;
}

// Of a call by descents of a team, which packs nothing.
inline double team_call_ms(const WarpInstructionModel& model, DataType type, const Chip& chip,
                           const Arguments& args) {
  // Of a row of results, and of each group of its pixels, in terms of the other kernels' estimates.
  constexpr double kRowCycles = 2150, kGroupCycles = 580, kHalfGroupCycles = 730;
  // The most of a copy's rate at which results are written.
  constexpr double kStoreShare = 0.7;
  const Phase& phase = args.phases[0];
  const Gather& g = args.geometry;
  const auto element_bytes = static_cast<int32_t>(size_of(type));
  const int32_t columns =
      team_columns(phase.w.pixels, args.patches[0].columns.divisor, element_bytes);
  const int32_t groups = columns / team_group(element_bytes) + 1;
  const double row = kRowCycles + groups * (element_bytes == 4 ? kGroupCycles : kHalfGroupCycles);
  const double rows = std::ceil(1.0 * args.pixel_tiles / args.strips.blocks) * args.strips.rows;
  const double bytes = 1.0 * phase.pixels * g.rows * g.groups * element_bytes;
  const double ms =
      1e3 * std::max(rows * row / chip.clock_hz, bytes / (kStoreShare * chip.memory_rate));
  return model.ms(ms, /*workspace_ms=*/0, /*kernels=*/1);
}

// Of a call.
inline double call_ms(const WarpInstructionModel& model, DataType type, const Chip& chip,
                      const Tile& tile, Access access, const std::vector<Arguments>& launches,
                      const Arguments* strips, int64_t packed_bytes, bool packs_once) {
  double tiles_ms = 0;
  if (strips != nullptr) {
    tiles_ms =
        tile == kDescentPatch ? descents_ms(*strips, chip, type) : strips_ms(*strips, chip, type);
  } else {
    for (const Arguments& args : launches) tiles_ms += launch_ms(tile, access, args, chip, type);
  }
  const double packed_ms = 2 * static_cast<double>(packed_bytes) / chip.memory_rate * 1e3;
  const auto count = static_cast<int64_t>(launches.size());
  const int64_t kernels = count + (packed_bytes == 0 ? 0 : packs_once ? 1 : count);
  return model.ms(tiles_ms, packed_ms, kernels);
}

}  // namespace haloconv::implicit_gemm
