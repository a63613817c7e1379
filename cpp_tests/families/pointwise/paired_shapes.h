// Problems of filters a few columns wide with a stride of 2, whose pairs are read as they lie.
#pragma once

#include <vector>

#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {

inline std::vector<TypedShape> paired_shapes() {
  return typed_shapes({"pairs_2x2         n3c72h8w32 k136r2s2 stride=2,2",
                       "pairs_2x2_block   n2c64h12w16 k16r2s2 stride=2,2",
                       "pairs_2x2_many    n2c24h64w96 k40r2s2 stride=2,2",
                       "pairs_3x2_padded  n2c16h10w48 k8r3s2 stride=3,2 pad=2,1,0,0",
                       "pairs_3x3         n2c16h18w128 k40r3s3 stride=2,2 pad=1,1,1,1",
                       "pairs_3x3_side    n2c72h17w128 k72r3s3 stride=2,2 pad=0,1,0,1",
                       "pairs_3x3_dilated n1c8h12w128 k8r3s3 stride=1,2 dil=2,1 pad=2,2,1,1",
                       "pairs_4x4         n3c24h12w256 k136r4s4 stride=2,2 pad=1,1,1,1",
                       "pairs_row         n2c64h1w512 k24r1s4 stride=1,2 pad=0,0,1,1"},
                      kSm90Types);
}

}  // namespace haloconv::testing
