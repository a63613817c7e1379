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
  // Of a call whose kernel leaves partial sums in so much workspace, which another kernel adds.
  double ms_with_partial_sums(double math_ms, int64_t workspace_bytes) const;

 private:
  double reached_rate_, memory_ms_, doubt_, least_ms_;
};

// The bytes of shared memory that each of so many blocks on a multiprocessor may have.
int64_t shared_room(const Chip& chip, int blocks);

// How many blocks that each have so many bytes of it a multiprocessor runs at once: no more than
// `most`, and at least one.
int64_t blocks_with_room(const Chip& chip, int most, int64_t shared_bytes);

// As many stages as fit beside those of so many blocks on a multiprocessor, or of fewer where that
// leaves less than three, so that copies are two steps ahead; from `least` to `most`, or 0: not
// even one block has its least. shared_bytes_of(stages) is what a block needs.
template <class SharedBytesOf>
int stages_with_room(const Chip& chip, int blocks, int least, int most,
                     SharedBytesOf shared_bytes_of) {
  constexpr int kEnough = 3;
  const auto stages_of = [&](int count) {
    const int64_t room = shared_room(chip, count);
    int stages = most;
    while (stages >= least && shared_bytes_of(stages) > room) --stages;
    return stages < least ? 0 : stages;
  };
  while (blocks > 1 && stages_of(blocks) < kEnough) --blocks;
  return stages_of(blocks);
}

}  // namespace haloconv
