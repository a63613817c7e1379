// Problems for the tests of all_phases: filters that are multiples of their stride and that are
// not, smaller and larger ones, padding that begins a period before the result, rows and images
// that end in the middle of one, groups, and tiles that end everywhere.
#pragma once

#include <vector>

#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {

inline std::vector<TypedShape> all_phases_shapes() {
  return typed_shapes(
      {
          "twos n2c5h16w16 k7r2s2 stride=2,2",
          "twos_over_odd_rows n2c6h17w17 k33r2s2 stride=2,2",
          "fours n5c9h8w8 k24r4s4 stride=2,2 pad=1,1,1,1",
          "fours_of_many_channels n1c70h24w72 k136r4s4 stride=2,2 pad=1,1,1,1",
          "fours_of_small_images n33c3h8w8 k16r4s4 stride=2,2 pad=1,1,1,1",
          "fours_of_wide_rows n1c4h6w560 k8r4s4 stride=2,2 pad=1,1,1,1",
          "threes n3c10h16w16 k17r3s3 stride=2,2 pad=1,1,1,1",
          "threes_over_odd_rows n2c66h15w31 k12r3s3 stride=2,2 pad=1,1,1,1",
          "threes_padded_on_one_side n2c12h16w40 k20r3s3 stride=2,2 pad=0,1,0,1",
          "under_stride n2c8h24w25 k16r2s2 stride=3,3",
          "one_tap n2c8h15w15 k16r1s1 stride=2,2",
          "nines_by_three n2c1h30w33 k56r9s9 stride=3,3 pad=4,4,4,4",
          "sixteens_by_eight n1c21h64w64 k21r16s16 stride=8,8 pad=4,4,4,4",
          "vectors n70c24h4w4 k100r4s4",
          "vectors_of_a_part n9c8h4w3 k12r5s4 pad=1,0,1,0",
          "one_row n3c20h1w256 k40r1s16 stride=1,8 pad=0,0,4,4",
          "one_column n2c6h40w1 k24r4s1 stride=2,1 pad=1,1,0,0",
          "rows_alone n2c8h18w9 k16r3s2 stride=3,1 pad=1,1,0,1",
          "columns_alone n2c8h9w16 k16r2s4 stride=1,2 pad=1,0,1,1",
          "wide_padding n2c5h20w20 k8r6s6 stride=2,2 pad=5,5,4,5",
          "cropped n2c5h7w9 k8r4s4 stride=2,2 pad=3,2,3,2",
          "groups_of_one n2c21h32w32 k21r4s4 stride=2,2 pad=1,1,1,1 groups=21",
          "groups_of_some n2c24h24w24 k48r4s4 stride=2,2 pad=1,1,1,1 groups=6",
          "groups_of_threes n3c9h15w16 k15r3s3 stride=2,2 pad=1,1,1,1 groups=3",
          "groups_of_eights n2c32h17w20 k32r4s4 stride=2,2 pad=1,1,1,1 groups=4",
          "groups_of_many n1c144h12w20 k160r4s4 stride=2,2 pad=1,1,1,1 groups=2",
          "many_tiles n40c16h64w64 k8r2s2 stride=2,2",
      },
      kSm90Types);
}

}  // namespace haloconv::testing
