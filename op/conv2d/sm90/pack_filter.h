// The filter in the order in which the math warpgroups read it: for each group, 64 rows (output
// channels), step (chunk, tap) and thread of a warpgroup its four values of the instruction's
// operand, rounded to TF32; zero where rows, channels or steps are padded.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/sm90/arguments.h"

namespace haloconv::sm90 {

struct PackArguments {
  const float* filter;
  uint4* packed;
  int64_t group, row, channel, r, s;  // elements of the filter from one to the next
  int32_t channels, rows;             // of a group
  int32_t taps, taps_s;
  int32_t first_r, step_r, first_s, step_s;  // the filter's coordinates of the taps
  int32_t row_groups, packed_steps;
};

void launch_pack_filter(const PackArguments& args, int32_t groups, cudaStream_t stream);

}  // namespace haloconv::sm90
