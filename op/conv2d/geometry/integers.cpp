#include "conv2d/geometry/integers.h"

#include <stdexcept>
#include <string>

#include "conv2d/geometry/fast_div.h"

namespace haloconv {

void throw_too_wide(int64_t value) {
  throw std::logic_error("haloconv: " + std::to_string(value) + " does not fit in 32 bits");
}

void FastDiv::throw_bad_divisor(int64_t divisor) {
  throw std::logic_error("haloconv: a divisor is " + std::to_string(divisor) +
                         ", expected 1 to 2^31 - 1");
}

}  // namespace haloconv
