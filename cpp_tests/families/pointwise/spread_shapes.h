// Problems for the tests of pointwise's spreads: tiles that end early along every axis, rows that
// take vectors of each length, and more tiles than blocks.
#pragma once

namespace haloconv::testing {

inline constexpr const char* kSpreadShapes[] = {
    "n2c5h16w16 k7r2s2 stride=2,2",    "n3c70h16w48 k72r2s2 stride=2,2",
    "n1c33h20w12 k130r2s2 stride=2,2",
    "n2c6h12w10 k33r2s2 stride=2,2",  // rows of five source pixels
    "n2c40h9w16 k16r3s2 stride=3,2",   "n3c20h1w40 k40r1s2 stride=1,2",
    "n1c9h64w128 k64r2s2 stride=2,2",
    "n1c64h256w256 k8r2s2 stride=2,2",  // more tiles than a GPU has blocks of them
};

}  // namespace haloconv::testing
