// Descriptors of the matrix instruction's operands in shared memory, by their addresses.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::sm90::first_layers {

HALOCONV_HOST_DEVICE inline uint64_t operand_start(uint32_t at) { return at >> 4 & 0x3fff; }

// fprop: eight rows of 16 bytes after each other, and 128 bytes on the next eight; the second half
// of the depth `half_bytes` on.
HALOCONV_HOST_DEVICE inline uint64_t unit_operand(uint32_t at, uint32_t half_bytes) {
  return operand_start(at) | uint64_t{half_bytes >> 4} << 16 | uint64_t{128 >> 4} << 32;
}

// wgrad's grad_output, of 64 channels, 128 bytes, whose pixels follow each other: swizzled over the
// bytes.
HALOCONV_HOST_DEVICE inline uint64_t pixel_operand(uint32_t at) {
  return operand_start(at) | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

// wgrad's units: eight pixels are 128 bytes, the next eight of the depth follow; the next eight
// columns are the next group of taps.
HALOCONV_HOST_DEVICE inline uint64_t group_operand(uint32_t at, uint32_t group_bytes) {
  return operand_start(at) | uint64_t{128 >> 4} << 16 | uint64_t{group_bytes >> 4} << 32;
}

}  // namespace haloconv::sm90::first_layers
