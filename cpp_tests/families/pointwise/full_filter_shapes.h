// Problems for the tests of pointwise's forward passes of full filters: tiles and depths that end
// early, vectors of each length, and many parts of the depth.
#pragma once

namespace haloconv::testing {

inline constexpr const char* kFullFilterShapes[] = {
    "n128c512h4w4 k100r4s4", "n3c5h3w3 k7r3s3",    "n70c24h1w6 k130r1s6",
    "n1c33h2w5 k64r2s5",     "n9c64h7w7 k200r7s7", "n2c6h5w1 k3r5s1",
};

}  // namespace haloconv::testing
