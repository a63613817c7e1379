#include "conv2d/families/pointwise/paired_arguments.h"

#include "conv2d/families/pointwise/unfold.h"
#include "conv2d/families/pointwise/wgrad_plan.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::pointwise {

namespace {

// Filters for whose columns there are kernels: elements from the one before a pixel's pair to the
// one after it.
bool has_columns(const Conv2dProblem& p) {
  if (p.pad_left == 0) return p.s == 2 || p.s == 3;
  return p.pad_left == 1 && (p.s == 3 || p.s == 4);
}

bool is_paired(const Conv2dProblem& p) {
  const bool is_dense =
      p.filter.w == 1 && (p.r == 1 || p.filter.h == p.s) && (p.c == 1 || p.filter.c == p.r * p.s);
  return p.groups == 1 && has_columns(p) && p.stride_w == 2 && p.dilation_w == 1 && p.c % 8 == 0 &&
         is_dense && p.input.w == 1 && p.output.w == 1 && (p.p() == 1 || p.output.h == p.q());
}

// Whether all that is copied at once lies at whole 16 bytes: eight 16-bit values of an image of
// grad_output, and the pairs that four of a row meet. Of wider filters chunks are whole rows or
// parts of one.
bool lies_in_units(const Conv2dProblem& p) {
  const int64_t values = size_of(p.type) / 2;
  const auto is_whole = [&](int64_t count, int64_t unit) { return count * values % unit == 0; };
  return is_whole(p.q(), p.s == 2 ? 4 : kDepth) && is_whole(p.p() * p.q(), 8) &&
         is_whole(p.output.n, 8) && is_whole(p.output.c, 8) && is_whole(p.input.n, 8) &&
         is_whole(p.input.c, 8) && (p.h == 1 || is_whole(p.input.h, 8)) && is_whole(p.w, 8);
}

}  // namespace

std::optional<PairedArguments> make_paired_arguments(const Conv2dProblem& p, int splits) {
  if (size_of(p.type) > 4 || !is_paired(p) || !lies_in_units(p)) return std::nullopt;
  const Tile tile = {paired_channels(narrow(p.s)), kPairedRows};
  const auto product = make_wgrad_arguments(unfolded(p), {.tile = tile, .splits = splits});
  if (!product) return std::nullopt;
  const int64_t values = size_of(p.type) / 2;
  PairedArguments args{};
  args.product = *product;
  args.input_n = p.input.n * values;
  args.input_c = p.input.c * values;
  args.input_h = p.input.h * values;
  args.image = FastDiv(p.p() * p.q() * values);
  args.row = FastDiv(p.q() * values);
  args.height = narrow(p.h);
  args.stride_h = narrow(p.stride_h);
  args.dilation_h = narrow(p.dilation_h);
  args.pad_top = narrow(p.pad_top);
  args.width = narrow(p.w * values);
  args.channels = narrow(p.c);
  args.taps_h = narrow(p.r);
  args.taps_w = narrow(p.s);
  args.pad_left = narrow(p.pad_left);
  args.channel_blocks = FastDiv(ceil_div(p.c, kPairedChannels));
  args.product.column_tiles = narrow(ceil_div(args.halves(), 2));
  args.product.padded_columns = args.product.columns;
  return args;
}

}  // namespace haloconv::pointwise
