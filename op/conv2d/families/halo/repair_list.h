// The list of sums of folded rows that are computed once more: nonfinite_repair.cuh says why.
#pragma once

#include <cstdint>

namespace haloconv::halo {

inline constexpr uint32_t kMaxRepairs = 16384;  // of a launch, on its list
inline constexpr int kRepairRows = 8;           // of the accumulators

// kRepairRows sums of one output: neighbouring channels of one pixel of the fold.
struct alignas(16) Repair {
  int32_t image, p, q;
  int32_t unit;  // times kRepairRows, over all groups
};

}  // namespace haloconv::halo
