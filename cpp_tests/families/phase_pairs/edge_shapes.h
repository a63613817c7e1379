// Problems for the tests of phase_pairs: each pattern of taps, with tiles that end early along
// every axis, rows of odd length, and rows of the result that no tap of a phase reaches from the
// source.
#pragma once

#include <vector>

#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {

inline std::vector<TypedShape> phase_pairs_shapes() {
  return typed_shapes(
      {
          "twos n2c5h16w16 k7r2s2 stride=2,2",
          "twos_as_a_row n3c70h32w32 k20r2s2 stride=2,2",
          "twos_as_rows_of_24 n2c9h64w48 k40r2s2 stride=2,2",
          "twos_over_odd_rows n2c6h17w17 k33r2s2 stride=2,2",
          "fours n5c9h8w8 k24r4s4 stride=2,2 pad=1,1,1,1",
          "fours_of_many_channels n1c70h24w72 k9r4s4 stride=2,2 pad=1,1,1,1",
          "fours_of_small_images n33c3h8w8 k16r4s4 stride=2,2 pad=1,1,1,1",
          "fours_of_wide_rows n1c4h6w280 k8r4s4 stride=2,2 pad=1,1,1,1",
          "threes n3c10h16w16 k17r3s3 stride=2,2 pad=1,1,1,1",
          "threes_over_odd_rows n2c66h15w31 k12r3s3 stride=2,2 pad=1,1,1,1",
          "threes_padded_on_one_side n2c12h16w40 k20r3s3 stride=2,2 pad=0,1,0,1",
          "threes_of_a_wider_stride n2c8h21w24 k8r3s2 stride=3,2",
          "fives_by_fours n2c16h16w24 k10r5s4 stride=2,2 pad=2,2,1,1",
          "one_row n3c20h1w40 k40r1s4 stride=1,2 pad=0,0,1,1",
          "rows_without_a_stride n2c8h9w16 k16r3s4 stride=1,2 pad=1,1,1,1",
      },
      std::span(kSm90Types).first(1));
}

}  // namespace haloconv::testing
