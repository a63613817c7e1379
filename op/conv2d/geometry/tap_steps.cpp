#include "conv2d/geometry/tap_steps.h"

#include <algorithm>
#include <numeric>

#include "conv2d/geometry/integers.h"

namespace haloconv {

TapSteps::TapSteps(int64_t of_filter, int64_t stride, int64_t dilation)
    : taps(of_filter),
      step(narrow(stride / std::gcd(stride, dilation))),
      shift(narrow(dilation / std::gcd(stride, dilation))),
      kinds(std::min<int64_t>(step, taps)),
      of_kind(ceil_div(taps, step)) {}

int64_t TapSteps::tiles(int32_t tile_taps) const {
  const int64_t turns = (of_kind - 1) / tile_taps;  // before the last, which may have fewer tiles
  return turns * kinds + std::min(kinds, taps - turns * tile_taps * step);
}

}  // namespace haloconv
