#include "conv2d/families/relaid/block_copy.h"

#include <algorithm>

#include "conv2d/families/relaid/arguments.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::relaid {

namespace {

// Elements that lie together in both, in whole units from one neighbour of theirs to the next: of a
// row of a channel, or of a row's channels.
int32_t unit_of(const BlockCopy& copy, int64_t n, int64_t c, int64_t h) {
  const Strides& strides = copy.strides;
  const bool innermost = copy.has_channels_innermost;
  const bool follow = innermost ? (c == 1 || strides.c == 1) && (copy.width == 1 || strides.w == c)
                                : strides.w == 1;
  if (!follow) return 1;
  const int64_t of_pixel = innermost ? c : 1;
  const auto divides = [&](int64_t unit) {
    const auto is_whole = [&](int64_t extent, int64_t stride) {
      return extent == 1 || stride % unit == 0;
    };
    return copy.block_w * of_pixel % unit == 0 && copy.left * of_pixel % unit == 0 &&
           copy.width * of_pixel % unit == 0 && copy.pitch.divisor % unit == 0 &&
           is_whole(n, strides.n) && is_whole(h, strides.h) &&
           (innermost || is_whole(c, strides.c));
  };
  auto unit = static_cast<int32_t>(elements_of_unit(copy.element_bytes));
  while (!divides(unit)) unit /= 2;
  return unit;
}

}  // namespace

BlockCopy make_block_copy(DataType type, const Strides& strides, int64_t n, int64_t c, int64_t h,
                          int64_t w, const Blocks& blocks, bool has_channels_innermost,
                          int64_t padded_n, int64_t pitch) {
  BlockCopy copy{.element_bytes = narrow(size_of(type)),
                 .strides = strides,
                 .images = narrow(n),
                 .height = narrow(h),
                 .width = narrow(w),
                 .padded_images = narrow(padded_n),
                 .rows = FastDiv(blocks.rows),
                 .columns = FastDiv(blocks.columns),
                 .block_h = narrow(blocks.height),
                 .block_w = narrow(blocks.width),
                 .top = narrow(blocks.top),
                 .left = narrow(blocks.left),
                 .channels = narrow(c * blocks.height * blocks.width),
                 .pitch = FastDiv(pitch),
                 .has_channels_innermost = has_channels_innermost,
                 .outer = FastDiv(blocks.width * (has_channels_innermost ? c : blocks.height)),
                 .inner = FastDiv(has_channels_innermost ? c : blocks.width),
                 .group_images = FastDiv(n),
                 .merged = FastDiv(1)};
  copy.unit = unit_of(copy, n, c, h);
  return copy;
}

BlockCopy make_group_copy(const Conv2dProblem& p, int64_t merged, int64_t padded_k, int64_t pitch) {
  const Blocks of_one = {.height = 1, .width = 1, .top = 0, .left = 0, .rows = p.r, .columns = p.s};
  BlockCopy copy =
      make_block_copy(p.type, p.filter, p.k, p.group_c(), p.r, p.s, of_one, true, padded_k, pitch);
  copy.group_images = FastDiv(p.group_k());
  copy.merged = FastDiv(merged);
  copy.group_channels = narrow(p.group_c());
  copy.unit = 1;
  return copy;
}

int32_t unit_at(const BlockCopy& copy, const void* address) {
  int32_t unit = copy.unit;
  while (reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(unit * copy.element_bytes) !=
         0) {
    unit /= 2;
  }
  return unit;
}

double block_copy_ms(const BlockCopy& copy, const Chip& chip) {
  constexpr double kLaunchMs = 0.0015;
  constexpr double kRate = 0.7;      // of memory's: no sector is read by one block alone
  constexpr double kUnitSlots = 60;  // of a scheduler, for a warp's units
  const double elements = static_cast<double>(copy.dense_elements());
  const double bytes =
      static_cast<double>(copy.dense_bytes()) +
      static_cast<double>(copy.element_bytes) * static_cast<double>(copy.elements());
  const double slots = elements / copy.unit / 32 * kUnitSlots;
  return kLaunchMs +
         1e3 * std::max(bytes / (chip.memory_rate * kRate), slots / (4.0 * chip.cycle_rate()));
}

}  // namespace haloconv::relaid
