// Values of real sizes: made and compared where they lie, on the device.
#pragma once

#include <cstdint>

#include "conv2d/problem.h"

namespace haloconv::testing {

// Writes integers from -2 to 2, by position and seed. The types: float32, float16, bfloat16.
void fill_small_integers(void* values, DataType type, int64_t count, uint32_t seed);

// How many are not the same number; NaN never is.
int64_t count_differences(const void* values, const void* expected, DataType type, int64_t count);

}  // namespace haloconv::testing
