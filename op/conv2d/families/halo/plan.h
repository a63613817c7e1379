// How the Hopper implementation runs a problem. Pure host functions: no GPU is asked.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <vector>

#include "chip/chip.h"
#include "conv2d/once.h"
#include "conv2d/problem.h"

namespace haloconv::sm90 {

struct Lowered;

// What the second of a block's two warpgroups computes beside the first.
enum class Share { kChannels, kImages, kRows, kColumns };

// A warpgroup computes 64 output channels of a tile of output pixels: `instructions` matrix
// instructions of `width` pixels for each tap and 8 input channels, of 16-bit types 16.
struct Tile {
  int width = 64;        // 56 or 64; 104: the weights of all tiles, which must be few, stay
  int instructions = 4;  // 2 or 4; 2 of 104, and of precise plans
  bool strips = true;    // an instruction takes width/8 rows of 8 pixels, or one row
  int images = 1, rows = 8, columns = 32;  // of the tile: their product is width * instructions
  Share share = Share::kChannels;
};

struct Plan {
  Direction direction = Direction::kFprop;
  DataType type = DataType::kFloat32;
  bool precise = false;  // float32 is not rounded, but multiplied in two parts of TF32
  Tile tile;
  // Neighbouring rows of the output computed as if they were further channels: fold.h.
  int fold = 1;
  bool fold_columns = false;  // columns instead
  // Blocks of a cluster, which share the tile's input channels and add their sums.
  int splits = 1;
  // Halo tiles of so many input channels that shared memory holds: set_stages() sets them.
  int stages = 2;
  // Chunks of input channels that the first of a block's math warpgroups is ahead of the second; in
  // kernels with a fusion, which stay ahead from tile to tile where a stage of the ring is free.
  int chunks_ahead = 1, fused_chunks_ahead = 1;
  // The packed filters, one for each phase that has taps, and a counter of tiles for each launch.
  int64_t workspace_bytes = 0;
  double estimated_ms = 0;
  // What launches need, worked out by the first of them; only of plans that best_plans() returns.
  std::shared_ptr<const Once<Lowered>> lowered = nullptr;
};

// Sets what follows from the stages too, of a plan whose splits are set. For what was lowered
// before, it is another plan.
void set_stages(const Conv2dProblem& problem, int stages, Plan& plan);

// Whether the plan has a kernel that takes a fusion: those in TF32 have, but for those that add
// sums of several blocks.
inline bool takes_fusion(const Plan& plan) {
  return plan.type == DataType::kFloat32 && !plan.precise && plan.splits == 1;
}

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// All plans of a problem that hopper_rows_decline() passes, the one expected to be fastest first.
// None where no tile with its halo fits in shared memory.
std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool tf32 = true);

// Of these at most so many: the best of each kind, for the model errs by kind, and if that leaves
// room, further ones. The first is the first of all.
std::vector<Plan> best_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool tf32, size_t count);

}  // namespace haloconv::sm90
