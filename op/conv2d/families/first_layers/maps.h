// Tensor maps, by which the copy engine brings the input and the output's gradient.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "conv2d/problem.h"
#include "cuda/tma.h"

namespace haloconv::sm90::first_layers {

// The map of a view of `of`, "input" for example. Throws std::runtime_error if there is none.
CUtensorMap map_of_view(const TensorView& view, const int32_t* box, CUtensorMapSwizzle swizzle,
                        const char* of);

// Of the input's rows, channels innermost, in boxes of so many times 8 bytes of so many rows.
CUtensorMap input_rows_map(const Conv2dProblem& problem, int32_t eights, int32_t rows,
                           const void* input);

}  // namespace haloconv::sm90::first_layers
