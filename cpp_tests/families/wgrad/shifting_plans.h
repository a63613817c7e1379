// Problems whose rows of grad_output begin at less than whole 16 bytes, and plans of theirs whose
// segments shift (shifted_segments.h).
#pragma once

#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/wgrad/arguments.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {

inline std::vector<Shape> shifted_shapes() {
  std::vector<Shape> shapes;
  for (const char* line : {
           "by_2 n2c16h34w64 k128r3s3                  # in 16 bits by up to 6",
           "by_4 n1c16h34w62 k64r3s3                   # in 16 bits alone",
           "by_6 n2c16h18w108 k64r3s4 pad=0,0,1,0      # windows begin before their pixels",
           "half_planes n1c16h10w78 k64r1s3 pad=0,0,1,1 # in 16 bits to 8 bytes, as planes begin",
           "one_by_one n1c24h16w66 k40r3s3 pad=1,1,1,1 # the input's columns are loaded so",
           "far_taps n2c16h18w110 k64r3s3 pad=0,0,2,0 dil=1,3 # with a long left part",
       }) {
    shapes.push_back(parse_shape(line));
  }
  return shapes;
}

// Segments shift where splits are interleaved, as no planner's are of so small a problem.
inline std::vector<wgrad::Plan> shifting_plans(const Conv2dProblem& whole, bool with_bias) {
  const Conv2dProblem p = flattened(whole);
  std::vector<wgrad::Plan> plans;
  for (wgrad::Plan plan : wgrad::make_plans(p, h200(), with_bias)) {
    plan.walk_rows = 4;
    plan.splits = 3;
    const auto args = wgrad::make_arguments(p, plan);
    if (!args || args->row_shift == 0) continue;
    plan.workspace_bytes = wgrad::workspace_bytes(*args, with_bias);
    plans.push_back(plan);
  }
  return plans;
}

}  // namespace haloconv::testing
