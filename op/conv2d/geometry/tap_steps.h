// Which taps of a strided filter can share what is brought of the input for them. Of the input only
// every stride-th pixel is brought. Taps that are `step` apart meet the same of these pixels,
// shifted by `shift` of them, and are of one kind. There are `step` kinds; without a stride there
// is one.
#pragma once

#include <cstdint>

namespace haloconv {

// Along one axis.
struct TapSteps {
  int64_t taps;  // of the filter
  int32_t step, shift;
  int64_t kinds;    // that the filter has
  int64_t of_kind;  // taps of the first kind, which none has more of

  TapSteps(int64_t of_filter, int64_t stride, int64_t dilation);

  // Tiles of so many taps of one kind that the filter's taps make: they begin at a tap of each
  // kind, and then as many taps of a kind further.
  int64_t tiles(int32_t tile_taps) const;
};

}  // namespace haloconv
