#include "conv2d/families/halo/stages.h"

#include <algorithm>

#include "conv2d/families/halo/flat_lines.h"

namespace haloconv::halo {

namespace {

// The most stages. Beyond a few, a larger L1 cache gains more than further windows on the way: on
// an H200, with this and kSharedBesideCache, 528 plans for layers of many networks took 0.986 of
// what they took with as many stages of 8 as fit, those of 16 bits whose results the copy engine
// writes 0.95.
constexpr int kMostStages = 5;
// The same where all of a warp's results are staged at once.
constexpr int kCopiedStages = 4;
// The same of flat tiles of float32, which have two windows: on an H200 `square_3x3` took 2760 us
// with 3 stages, 3056 with 2 and 2949 with 4.
constexpr int kFlatStagesOfFloat32 = 3;
// Shared memory of a block beside which the L1 cache has 60 KB of 256. Where windows are so large
// that fewer stages make the difference, they are fewer: `vgg16_3`, input gradient in TF32, took
// 0.88 of the time with 2 stages for 3.
constexpr int kSharedBesideCache = 195 * 1024;

int32_t most_stages(const Tile& tile, DataType type) {
  if (is_flat(tile) && type == DataType::kFloat32) return kFlatStagesOfFloat32;
  if (copies_lines(tile)) return kCopiedStages;
  return kMostStages;
}

}  // namespace

StageCount::StageCount(const Tile& tile, DataType type, bool precise)
    : precise_(precise), beside_cache_(most_stages(tile, type)) {}

void StageCount::add(int32_t window_bytes, int32_t others, int32_t taps) {
  most_ = std::min(most_, (kMaxShared - others) / window_bytes);
  beside_cache_ = std::min(beside_cache_, (kSharedBesideCache - others) / window_bytes);
  one_tap_ = one_tap_ || taps == 1;
}

int32_t StageCount::count() const {
  // With a single tap, three windows are in use at a time, of precise plans four. These gain from
  // all that fit: on an H200 33 plans took 1.02 of that time with 5.
  const int32_t least = one_tap_ ? (precise_ ? 4 : 3) : kLeastStages;
  if (most_ < least) return 0;
  return one_tap_ && precise_ ? most_ : std::clamp(beside_cache_, least, most_);
}

}  // namespace haloconv::halo
