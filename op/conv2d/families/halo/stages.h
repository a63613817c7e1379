// How many windows of a tile's source a block's shared memory has: the ring's stages.
#pragma once

#include <cstdint>

#include "conv2d/families/halo/arguments.h"
#include "conv2d/problem.h"

namespace haloconv::halo {

inline constexpr int kLeastStages = 2;

// The same number for all launches of a tile, of which each is added.
class StageCount {
 public:
  StageCount(const Tile& tile, DataType type, bool precise);

  // A launch's window has so many bytes; `others` have a place beside the ring.
  void add(int32_t window_bytes, int32_t others, int32_t taps);

  // 0 where shared memory holds too few.
  int32_t count() const;

 private:
  bool precise_, one_tap_ = false;
  int32_t most_ = kMaxStages, beside_cache_;
};

}  // namespace haloconv::halo
