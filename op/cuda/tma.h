// How the bulk copy engine (TMA) sees a tensor in global memory: tensor maps, encoded on the host
// by the driver.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "cuda/pixel_column.h"

namespace haloconv {

// The innermost dimension first, whose elements are contiguous. Unused dimensions do not count.
struct TensorView {
  const void* address = nullptr;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  int element_bytes = 2;
  int rank = 0;
  int64_t extents[5] = {};
  int64_t strides[5] = {};  // in elements; strides[0] is not read
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
};

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
