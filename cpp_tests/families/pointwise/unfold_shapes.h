// Problems whose input is unfolded to one of one tap.
#pragma once

#include <string>
#include <vector>

#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {

struct UnfoldShape {
  std::string name, text;
  bool has_fprop, has_dgrad;  // windows that do not overlap; one tap
};

inline const std::vector<UnfoldShape>& unfold_shapes() {
  static const std::vector<UnfoldShape> shapes = {
      {"skip", "n2c16h12w16 k24r1s1 stride=2,2", true, true},
      {"skip_of_odd_rows", "n2c10h9w15 k12r1s1 stride=2,2", true, true},
      {"skip_to_7", "n3c72h14w14 k136r1s1 stride=2,2", true, true},
      {"skip_beyond", "n2c9h12w24 k8r1s1 stride=3,5", true,
       true},  // rows and columns that none meets
      {"one_stride", "n1c8h10w32 k16r1s1 stride=1,2", true, true},
      {"many_pixels", "n2c40h60w64 k72r1s1 stride=2,2", true, true},
      {"patches", "n2c12h8w12 k16r2s2 stride=2,2", true, false},
      {"large_patches", "n1c6h16w32 k40r4s4 stride=4,4", true, false},
      {"overlapping", "n2c8h13w17 k16r3s3 stride=2,2 pad=1,1,1,1", false, false},
      {"overlapping_rows_of_8", "n1c8h16w32 k16r3s3 stride=2,2 pad=1,1,1,1", false, false},
      {"padded_unevenly", "n2c5h10w20 k8r1s3 stride=1,2 pad=0,0,2,1", false, false},
      {"pairs", "n3c72h8w32 k136r2s2 stride=2,2", true, false},
      {"pairs_of_one_block", "n2c64h12w16 k16r2s2 stride=2,2", true, false},
      {"pairs_of_a_row", "n2c8h1w80 k24r1s2 stride=1,2", true, false},
      {"pairs_padded", "n2c16h10w48 k8r3s2 stride=3,2 pad=2,1,0,0", true, false},
      {"pairs_many", "n2c24h64w96 k40r2s2 stride=2,2", true, false},
      {"dilated", "n2c8h13w21 k16r2s2 stride=2,2 dil=3,2 pad=1,2,0,1", true, false},
  };
  return shapes;
}

inline Conv2dProblem problem_of(const UnfoldShape& shape, DataType type = DataType::kBFloat16) {
  Conv2dProblem problem = parse_shape("a " + shape.text).problem;
  problem.type = type;
  return problem;
}

inline std::string name_of_unfold(const ::testing::TestParamInfo<UnfoldShape>& info) {
  return info.param.name;
}

}  // namespace haloconv::testing
