#include "conv2d/families/channels_last/fold.h"

namespace haloconv::sm90::channels_last {

int64_t columns_of_fold(const Conv2dProblem& p, Direction direction) {
  const bool is_as_wide = p.s > 1 && p.s == p.stride_w && p.dilation_w == 1 && p.groups == 1;
  const bool has_no_padding = p.pad_left == 0 && p.pad_right == 0 && p.w == p.q() * p.s;
  const bool is_dense = p.input.c == 1 && p.input.w == p.c && p.filter.c == 1 && p.filter.w == p.c;
  return direction == Direction::kDgrad && is_as_wide && has_no_padding && is_dense ? p.s : 1;
}

Conv2dProblem folded(const Conv2dProblem& p, int64_t columns) {
  Conv2dProblem fold = p;
  fold.c *= columns;
  fold.w /= columns;
  fold.s /= columns;
  fold.stride_w /= columns;
  fold.input.w *= columns;
  fold.filter.w *= columns;
  return fold;
}

}  // namespace haloconv::sm90::channels_last
