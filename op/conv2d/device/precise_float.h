#pragma once

namespace haloconv {

// A float32 that is not rounded to TF32: the type of the kernels that multiply it in two terms.
struct PreciseFloat {
  float value;
};

}  // namespace haloconv
