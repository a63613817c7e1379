// A window that is staged (staging.h): its units lie in planes, so that neighbours of one unit lie
// side by side, in all banks, and a tap's pixels as far from another's as in the source.
#pragma once

#include "conv2d/families/implicit_gemm/windows/windows.h"

namespace haloconv::implicit_gemm {

// Where a pixel's unit lies.
HALOCONV_HOST_DEVICE inline int32_t staged_place(const Windows& windows, int32_t pixel,
                                                 int32_t unit) {
  return unit * (windows.bytes >> windows.log_units) + pixel * kUnitBytes;
}

}  // namespace haloconv::implicit_gemm
