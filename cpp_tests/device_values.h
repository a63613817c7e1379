// Values of real sizes: made and compared where they lie, on the device.
#pragma once

#include <cstdint>

namespace haloconv::testing {

// Writes integers from -2 to 2, by position and seed.
void fill_small_integers(float* values, int64_t count, uint32_t seed);

// How many are not the same number; NaN never is.
int64_t count_differences(const float* values, const float* expected, int64_t count);

}  // namespace haloconv::testing
