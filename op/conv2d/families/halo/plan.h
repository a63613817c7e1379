// The plans of the halo family. Pure host functions: they ask no GPU.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <vector>

#include "chip/chip.h"
#include "conv2d/once.h"
#include "conv2d/problem.h"

namespace haloconv::halo {

struct Lowered;

// What the second of a block's two warpgroups computes beside the first.
enum class Share { kChannels, kImages, kRows, kColumns };

// A warpgroup computes 64 output channels of a tile of output pixels: `instructions` matrix
// instructions of `width` pixels for each tap and 8 input channels, of 16-bit types 16.
struct Tile {
  // 56, 64 or 104. Width 104, and pieces of one row that the copy engine writes, keep the whole
  // packed filter in registers: resident_steps() says how many steps that may be.
  int width = 64;
  int instructions = 4;  // 2 or 4; with width 104, and in precise plans, only 2
  // Whether an instruction's pixels are a patch, width / 8 rows of 8 pixels, or one row of them.
  bool patches = true;
  // Of the tile. Their product is width * instructions; smaller in tiles that run on from row to
  // row, which write less than they compute: flat_lines.h.
  int images = 1, rows = 8, columns = 32;
  Share share = Share::kChannels;
  // Whether the copy engine writes the results: of a tile that is a piece of one row, with weights
  // that stay (copied_lines.h), or of pieces of several rows (copied_rows.cuh).
  bool copied = false;
};

struct Plan {
  Direction direction = Direction::kFprop;
  DataType type = DataType::kFloat32;
  bool precise = false;  // float32 values are split into two TF32 terms instead of rounded
  Tile tile;
  // Neighbouring rows of the output computed as if they were further channels: fold.h.
  int fold = 1;
  bool fold_columns = false;  // columns instead
  // Blocks of a cluster, which share the tile's input channels and add their sums.
  int splits = 1;
  // Windows, each of one chunk of input channels, that shared memory holds: set_stages() sets them.
  int stages = 2;
  // By how many chunks of input channels the first of a block's math warpgroups is ahead of the
  // second, and the same for kernels with a fusion: these restore the distance with every tile if
  // it leaves a stage of the ring free.
  int chunks_ahead = 1, fused_chunks_ahead = 1;
  // The packed filters, one for each phase that has taps, and a counter of tiles for each launch.
  int64_t workspace_bytes = 0;
  double estimated_ms = 0;
  // What launches need, worked out by the first of them; only of plans that best_plans() returns.
  // Where the copy engine writes results, also for launches whose results it cannot write.
  std::shared_ptr<const Once<Lowered>> lowered = nullptr, lowered_without_engine = nullptr;
};

// Sets what follows from the stages too, of a plan whose splits are set. For what was lowered
// before, it is another plan.
void set_stages(const Conv2dProblem& problem, int stages, Plan& plan);

// Whether the plan has a kernel that takes a fusion: those in TF32 have, but for those that add
// sums of several blocks. Where the copy engine writes results, math warps write those of a fusion.
inline bool takes_fusion(const Plan& plan) {
  return plan.type == DataType::kFloat32 && !plan.precise && plan.splits == 1;
}

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// All plans of a problem that hopper_rows_decline() passes, the one expected to be fastest first.
// None where no tile with its halo fits in shared memory.
std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool tf32 = true);

// At most `count` of these: the best of each kind, because the model errs by kind, and further ones
// if there is room. The first is the first of all.
std::vector<Plan> best_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool tf32, size_t count);

}  // namespace haloconv::halo
