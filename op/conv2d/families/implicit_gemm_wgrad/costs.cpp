#include "conv2d/families/implicit_gemm_wgrad/costs.h"

#include <algorithm>
#include <cmath>

#include "conv2d/geometry/warp_instruction.h"
#include "conv2d/rates.h"

namespace haloconv::implicit_gemm_wgrad {

int64_t blocks_at_once(const Tile& tile, int stages, int element_bytes, const Chip& chip) {
  return blocks_with_room(chip, blocks_of(tile), shared_bytes(tile, stages, element_bytes)) *
         chip.multiprocessors;
}

double model_ms(const WarpInstructionModel& model, DataType type, const Plan& plan,
                const Chip& chip) {
  constexpr double kSustained = 0.36;     // of the instruction's rate, in a kernel
  constexpr double kElements = 0.5;       // of that, where threads load the operands themselves
  constexpr double kStepCycles = 60;      // of a step, for its barrier and its pixels
  constexpr double kBlockCycles = 2000;   // of a block, for its first copies and last results
  constexpr double kLatencyCycles = 900;  // from the issue of a copy to its use
  const Arguments& args = plan.args;
  const Tile& tile = plan.tile;
  const auto element_bytes = static_cast<int>(size_of(type));
  const double rate = matrix_rate(chip, type, /*tf32=*/true) * warp_instruction_share(chip) *
                      kSustained * (plan.access == Access::kElements ? kElements : 1);
  const double multiprocessors = chip.multiprocessors;
  const auto blocks = static_cast<double>(args.blocks());
  const auto at_once = static_cast<double>(blocks_at_once(tile, args.stages, element_bytes, chip));
  const double sharing = std::ceil(std::min(blocks, at_once) / multiprocessors);
  // Few warps leave the tensor cores' latency open.
  const double filled = std::min(1.0, 0.4 + 0.075 * sharing * tile.threads() / 32);
  const double pixels = step_pixels(element_bytes);
  const double math = tile.rows * tile.columns * pixels / rate / filled + kStepCycles;
  const double brought = stage_bytes(tile) / (chip.l2_rate / chip.cycle_rate());
  const double step =
      std::max(sharing * std::max(math, brought), kLatencyCycles / (args.stages - 1));
  const double steps = std::ceil(static_cast<double>(args.split_pixels) / pixels);
  const double rounds = std::ceil(blocks / (sharing * multiprocessors));
  const double math_ms = rounds * (steps * step + kBlockCycles) / chip.clock_hz * 1e3;
  return model.ms_with_partial_sums(math_ms, plan.workspace_bytes);
}

}  // namespace haloconv::implicit_gemm_wgrad
