// The shapes of the tests of row_strips.
#pragma once

#include <span>
#include <vector>

#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {

// Those of the input's gradient.
inline std::vector<TypedShape> row_strips_shapes(std::span<const DataType> types) {
  return typed_shapes(
      {
          "two_bands n1c32h5w264 k64r5s9 pad=2,2,4,4",                  // the second one narrow
          "two_bands_dilated n1c32h7w264 k64r5s9 pad=2,2,4,4 dil=2,3",  // residues of seven rows
                                                                        // and six
          "whole_or_halves n2c24h8w40 k32r5s9 pad=0,0,4,4",             // in all types either way
          "three_rows n3c17h5w40 k32r3s9 pad=1,1,4,4",        // rows of taps that are dropped
          "one_row n2c8h5w40 k32r1s9 pad=0,0,4,4 dil=3,2",    // each source row completes one
          "far_rows n1c32h6w40 k32r5s9 pad=9,9,4,4 dil=4,1",  // rows that meet no source row
          "sides n2c30h5w33 k32r4s9 pad=3,0,0,7",             // other padding on each side
      },
      types);
}

}  // namespace haloconv::testing
