// Tile types by name.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "conv2d/device/accumulator.cuh"
#include "conv2d/device/grid.h"
#include "conv2d/families/generic/plan.h"
#include "conv2d/families/generic/tile.cuh"
#include "conv2d/geometry/integers.h"

namespace haloconv::generic {

template <class T>
inline constexpr DataType kDataType = std::is_same_v<T, double>   ? DataType::kFloat64
                                      : std::is_same_v<T, float>  ? DataType::kFloat32
                                      : std::is_same_v<T, __half> ? DataType::kFloat16
                                                                  : DataType::kBFloat16;

template <class T, Kernel kKernel>
struct TileOf {
  static constexpr TileShape kShape = tile_shape(kKernel, kDataType<T>);
  using Type = Tile<AccumulatorOf<T>, kShape.m, kShape.n, kShape.k, kShape.tm, kShape.tn>;
};

// Calls body.template operator()<Tile>() for the tile that `kernel` names.
template <class T, class Body>
void with_tile(Kernel kernel, Body body) {
  switch (kernel) {
    case Kernel::k128x128:
      return body.template operator()<typename TileOf<T, Kernel::k128x128>::Type>();
    case Kernel::k64x128:
      return body.template operator()<typename TileOf<T, Kernel::k64x128>::Type>();
    case Kernel::k32x128:
      return body.template operator()<typename TileOf<T, Kernel::k32x128>::Type>();
    case Kernel::k16x256:
      return body.template operator()<typename TileOf<T, Kernel::k16x256>::Type>();
    case Kernel::k128x32:
      return body.template operator()<typename TileOf<T, Kernel::k128x32>::Type>();
    case Kernel::kDirect:
      break;
  }
  throw std::logic_error("haloconv: this kernel has no tile");
}

}  // namespace haloconv::generic
