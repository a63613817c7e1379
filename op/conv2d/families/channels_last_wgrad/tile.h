// A block's tile of the filter's gradient: output channels x columns, where a column is one element
// (tap, channel) of an output channel's filter.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::sm90::channels_last_wgrad {

// Of a patch, where grad_output has its rows innermost: 128 bytes.
inline constexpr int32_t kRowColumns = 64;

// Warpgroups stand in row_warpgroups x column_warpgroups. Each has 64 output channels and
// `instructions` times as many columns as one matrix instruction takes: `chunks` of `width`
// neighbouring channels of one tap.
struct Tile {
  int32_t row_warpgroups, column_warpgroups, instructions, chunks, width;

  HALOCONV_HOST_DEVICE constexpr int32_t rows() const { return 64 * row_warpgroups; }
  HALOCONV_HOST_DEVICE constexpr int32_t math_warpgroups() const {
    return row_warpgroups * column_warpgroups;
  }
  HALOCONV_HOST_DEVICE constexpr int32_t math_threads() const { return 128 * math_warpgroups(); }
  // One warpgroup more brings the operands.
  HALOCONV_HOST_DEVICE constexpr int32_t threads() const { return math_threads() + 128; }
  // Columns of a matrix instruction.
  HALOCONV_HOST_DEVICE constexpr int32_t n() const { return chunks * width; }
  // Fours of sums that a math thread holds: wgmma()'s d[4i] to d[4i + 3].
  HALOCONV_HOST_DEVICE constexpr int32_t quads() const { return instructions * n() / 8; }
  HALOCONV_HOST_DEVICE constexpr int64_t values() const {
    return int64_t{4} * quads() * math_threads();
  }
  constexpr bool operator==(const Tile&) const = default;
};

// A tile as a type, which nvcc takes as a kernel's template argument.
template <int32_t... kMembers>
struct TileConstant {
  static constexpr Tile kTile = {kMembers...};
};

}  // namespace haloconv::sm90::channels_last_wgrad
