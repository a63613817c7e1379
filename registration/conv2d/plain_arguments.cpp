#include "registration/conv2d/plain_arguments.h"

#include <algorithm>
#include <limits>

namespace haloconv {
namespace {

using c10::IntArrayRef;

bool are_within(IntArrayRef values, int64_t least, int64_t most) {
  return std::ranges::all_of(values,
                             [&](int64_t value) { return least <= value && value <= most; });
}

bool is_pair(IntArrayRef values) { return values.size() == 1 || values.size() == 2; }

// As check_alike() has it.
bool is_like(const at::Tensor& tensor, const at::Tensor& input) {
  return tensor.scalar_type() == input.scalar_type() &&
         (tensor.device() == input.device() || tensor.is_meta() || input.is_meta());
}

}  // namespace

bool read_plain_conv2d(Conv2dArguments& args, const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, const Conv2dParameters& parameters) {
  if (!input.defined() || !weight.defined() || !is_like(weight, input)) return false;
  const auto sizes = c10::asIntArrayRefSlowOpt(input.sym_sizes());
  const auto filters = c10::asIntArrayRefSlowOpt(weight.sym_sizes());
  const auto stride = c10::asIntArrayRefSlowOpt(parameters.stride);
  const auto padding = c10::asIntArrayRefSlowOpt(parameters.padding);
  const auto dilation = c10::asIntArrayRefSlowOpt(parameters.dilation);
  const auto groups = parameters.groups.maybe_as_int();
  if (!sizes || !filters || !stride || !padding || !dilation || !groups) return false;
  if (sizes->size() != 4 || filters->size() != 4) return false;
  const int64_t n = (*sizes)[0], c = (*sizes)[1], h = (*sizes)[2], w = (*sizes)[3];
  const int64_t k = (*filters)[0], r = (*filters)[2], s = (*filters)[3];
  if (h < 1 || w < 1 || r < 1 || s < 1) return false;
  if (*groups < 1 || k < *groups || k % *groups != 0 || c != (*filters)[1] * *groups) {
    return false;
  }
  if (is_given(bias)) {
    const auto filter_count = c10::asIntArrayRefSlowOpt(bias->sym_sizes());
    if (!filter_count || !filter_count->equals({k}) || !is_like(*bias, input)) return false;
  }

  if (!is_pair(*stride) || !is_pair(*dilation)) return false;
  if (!is_pair(*padding) && padding->size() != 4) return false;
  if (!are_within(*stride, 1, std::numeric_limits<int64_t>::max()) ||
      !are_within(*padding, 0, kMostOfAnArgument) || !are_within(*dilation, 1, kMostOfAnArgument)) {
    return false;
  }
  const bool has_sides = padding->size() == 4;
  const int64_t top = padding->front(), bottom = has_sides ? (*padding)[1] : top;
  const int64_t right = padding->back(), left = has_sides ? (*padding)[2] : right;
  const int64_t rows_left = h + top + bottom - dilation->front() * (r - 1) - 1;
  const int64_t columns_left = w + left + right - dilation->back() * (s - 1) - 1;
  if (rows_left < 0 || columns_left < 0) return false;

  args.n = n;
  args.c = c;
  args.h = h;
  args.w = w;
  args.k = k;
  args.r = r;
  args.s = s;
  args.p = rows_left / stride->front() + 1;
  args.q = columns_left / stride->back() + 1;
  args.stride = {stride->front(), stride->back()};
  args.padding = {top, bottom, left, right};
  args.dilation = {dilation->front(), dilation->back()};
  args.groups = *groups;
  if (n != 0 && c != 0 && (is_channels_last(input) || is_channels_last(weight))) {
    args.memory_format = at::MemoryFormat::ChannelsLast;
  }
  return true;
}

}  // namespace haloconv
