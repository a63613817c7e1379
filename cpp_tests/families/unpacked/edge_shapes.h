// The shapes of the tests of unpacked.
#pragma once

#include <vector>

#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {

inline std::vector<TypedShape> unpacked_shapes() {
  static constexpr DataType kTypes[] = {DataType::kFloat32};
  return typed_shapes(
      {
          "pairs n2c20h8w12 k40r2s2 stride=2,2",                  // no whole window of channels
          "images n9c6h8w8 k72r4s4 stride=2,2 pad=1,1,1,1",       // several images a tile
          "windows n2c12h9w20 k136r3s3 stride=2,2 pad=1,1,1,1",   // that end within a stage
          "one_side n1c16h8w140 k20r3s3 stride=2,2 pad=0,1,0,1",  // several tiles of columns
          "one_row n3c8h1w64 k24r1s16 stride=1,8 pad=0,0,4,4",    // one-dimensional
          "dilated n1c8h12w12 k16r3s3 stride=1,2 pad=2,2,2,2 dil=2,2",  // a stride of columns
          "gaps n2c12h12w24 k28r2s2 stride=3,3",                        // pixels that no tap meets
          "one_tap n2c40h8w8 k70r1s1 stride=2,2",                       // many channels
          "deep n1c40h8w8 k264r5s5 stride=2,2 pad=2,2,2,2",             // blocks that share a tile
      },
      kTypes);
}

}  // namespace haloconv::testing
