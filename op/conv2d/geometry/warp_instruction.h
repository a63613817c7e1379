// What the kernels of the warp's matrix instruction need from a chip and a problem, in all
// families.
#pragma once

#include <string>

#include "chip/chip.h"
#include "conv2d/problem.h"

namespace haloconv {

// Why none of them takes the problem, or "". `tf32`: float32 products may be rounded.
std::string warp_instruction_decline(const Conv2dProblem& problem, Direction direction,
                                     const Chip& chip, bool tf32);

// Whether the channels of input and output lie side by side, those of a group fill whole units of
// so many, and all other neighbours are whole units apart.
bool lies_in_units(const Conv2dProblem& problem, int64_t unit);

// The part of the tensor cores' rate that this instruction reaches.
double warp_instruction_share(const Chip& chip);

// What calls for a problem take by this instruction.
class WarpInstructionModel {
 public:
  WarpInstructionModel(const Conv2dProblem& problem, const Chip& chip);

  // Milliseconds of a call whose `kernels` take math_ms if memory is no limit, and workspace_ms for
  // what they write and read again.
  double ms(double math_ms, double workspace_ms, int64_t kernels) const;

 private:
  double memory_ms_, doubt_, least_ms_;
};

// The part of a copy's rate that these kernels reach.
inline constexpr double kReachedMemoryRate = 0.9;

// The bytes of shared memory that each of so many blocks on a multiprocessor may have.
int64_t shared_room(const Chip& chip, int blocks);

}  // namespace haloconv
