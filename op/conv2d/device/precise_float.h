#pragma once

namespace haloconv::sm90 {

// A float32 that is not rounded to TF32: the type of the kernels that multiply it in two parts.
struct PreciseFloat {
  float value;
};

}  // namespace haloconv::sm90
