// The list of a fold's sums that are to be computed once more: mend.cuh says why.
#pragma once

#include <cstdint>

namespace haloconv::sm90 {

inline constexpr uint32_t kMaxRepairs = 16384;  // of a launch, on its list
inline constexpr int kRepairRows = 8;           // of the accumulators

// Of one output all kRepairRows: neighbouring channels of one pixel of the fold.
struct alignas(16) Repair {
  int32_t image, p, q;
  int32_t unit;  // times kRepairRows, over all groups
};

}  // namespace haloconv::sm90
