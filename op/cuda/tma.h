// How the bulk copy engine (TMA) sees a tensor in global memory: tensor maps, encoded on the host
// by the driver.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

namespace haloconv {

// The innermost dimension first, whose elements are contiguous. Unused dimensions do not count.
struct TensorView {
  const void* address = nullptr;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  int element_bytes = 2;
  int rank = 0;
  int64_t extents[5] = {};
  int64_t strides[5] = {};  // in elements; strides[0] is not read
};

// A column of pixels, as im2col mode copies it: pixels of a (channels, w, h, images) tensor that
// follow each other in a box of base pixels, row by row and image by image. A copy adds a tap's
// offset to each; what then lies outside of the tensor reads as zeros.
struct PixelColumn {
  int32_t channels = 0, pixels = 0;  // copied at a time; pixels <= 1024
  int32_t first_w = 0, first_h = 0;  // the box's first base pixel; within -128 to 127
  int32_t count_w = 0, count_h = 0;  // base pixels of a row, and rows
  int32_t step_w = 1, step_h = 1;    // from one base pixel to the next; at most 8
};

// Offsets of taps are at most this in im2col mode.
inline constexpr int32_t kMaxTapOffset = 255;

// Whether the engine takes such a column of a tensor of w * h pixels.
bool fits_im2col(const PixelColumn& column, int64_t w, int64_t h);

// A map for copies of a box of `box` elements, one extent for each dimension, which lie `steps`
// elements apart in each (at most 8; without `steps` they are neighbours). None where the driver
// makes none: a stride or an address that is no multiple of 16 bytes, or no driver.
std::optional<CUtensorMap> make_tiled_map(const TensorView& view, const int32_t* box,
                                          CUtensorMapSwizzle swizzle,
                                          const int32_t* steps = nullptr);

// A map for copies in im2col mode; the view has rank 4.
std::optional<CUtensorMap> make_im2col_map(const TensorView& view, const PixelColumn& column,
                                           CUtensorMapSwizzle swizzle);

}  // namespace haloconv
