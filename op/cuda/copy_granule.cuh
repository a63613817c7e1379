// How many bytes an asynchronous copy brings, which only a launch knows, as a constant.
#pragma once

#include <cstdint>

namespace haloconv {

// Calls body.template operator()<granule>(). The granule is 16, 8 or 4.
template <class Body>
__device__ __forceinline__ void with_granule(int32_t granule, Body body) {
  switch (granule) {
    case 16:
      return body.template operator()<16>();
    case 8:
      return body.template operator()<8>();
    default:
      return body.template operator()<4>();
  }
}

}  // namespace haloconv
