// Descriptors of the matrix instruction's operands in shared memory.
#pragma once

#include <cstdint>

#include "conv2d/families/channels_last/tile.h"

namespace haloconv::sm90::channels_last {

// Of a row of an operand, for an instruction: 16 or 8 products deep.
inline constexpr int kOperandBytes = 32;

// A shared-memory address as a descriptor has it.
HALOCONV_HOST_DEVICE inline uint64_t operand_address(uint32_t at) { return at >> 4 & 0x3fff; }

// Of rows of 128, 64 or 32 bytes that are swizzled over their length, with `group_bytes` from eight
// rows to the next. MN-major operands wider than a row go on `wide_bytes` further.
HALOCONV_HOST_DEVICE constexpr uint64_t swizzled_form(int row_bytes, int32_t group_bytes,
                                                      int32_t wide_bytes = 0) {
  return uint64_t(row_bytes == 128  ? 1
                  : row_bytes == 64 ? 2
                                    : 3)
             << 62 |
         uint64_t(group_bytes / 16) << 32 | uint64_t(wide_bytes / 16) << 16;
}

// Of a row of dgrad's filter unit of 16-bit types.
HALOCONV_HOST_DEVICE constexpr int dgrad_row_bytes(const Tile& tile) {
  return filter_row_channels(tile) * 2;
}

// A filter's unit: dgrad's of 16-bit types lies as (depth x 64 channels) for each 64, or as
// (depth x 32).
HALOCONV_HOST_DEVICE constexpr uint64_t filter_form(const Tile& tile, bool dgrad) {
  const int row_bytes = dgrad ? dgrad_row_bytes(tile) : tile.row_bytes();
  return swizzled_form(row_bytes, row_bytes * 8, dgrad ? tile.depth * row_bytes : 0);
}

// Bytes from a filter unit's start to its products from `k` on.
HALOCONV_HOST_DEVICE constexpr int filter_step(const Tile& tile, bool dgrad, int k) {
  return k * (dgrad ? dgrad_row_bytes(tile) : tile.element_bytes);
}

}  // namespace haloconv::sm90::channels_last
