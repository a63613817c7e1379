// Descriptors of the matrix instruction's operands in shared memory, by their addresses.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::sm90::first_layers {

HALOCONV_HOST_DEVICE inline uint64_t operand_start(uint32_t at) { return at >> 4 & 0x3fff; }

// fprop: eight rows of 16 bytes follow each other, and the next eight follow them. The second half
// of the depth is `half_bytes` on.
HALOCONV_HOST_DEVICE inline uint64_t unit_operand(uint32_t at, uint32_t half_bytes) {
  return operand_start(at) | uint64_t{half_bytes >> 4} << 16 | uint64_t{128 >> 4} << 32;
}

// grad_output: pixels of 64 channels, 128 bytes, follow each other, swizzled over these bytes.
HALOCONV_HOST_DEVICE inline uint64_t pixel_operand(uint32_t at) {
  return operand_start(at) | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

// Pixels of 32 channels, 64 bytes, in the same way.
HALOCONV_HOST_DEVICE inline uint64_t narrow_pixel_operand(uint32_t at) {
  return operand_start(at) | uint64_t{512 >> 4} << 32 | uint64_t{2} << 62;
}

// wgrad's units: eight pixels are 128 bytes, and the next eight of the depth follow. The next eight
// columns are the next group of taps.
HALOCONV_HOST_DEVICE inline uint64_t group_operand(uint32_t at, uint32_t group_bytes) {
  return operand_start(at) | uint64_t{128 >> 4} << 16 | uint64_t{group_bytes >> 4} << 32;
}

}  // namespace haloconv::sm90::first_layers
