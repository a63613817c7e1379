// How the depthwise kernels see the axes, channels and filters of groups with one channel to sum
// over, in whichever order a tensor's elements lie. Pure host arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

inline constexpr int64_t kWarp = 32;  // threads

// One axis: the tap that lies t after the first meets source coordinate
// (output*step + t + tap_phase)/upsampling + origin, where that is whole.
struct DepthwiseAxis {
  int32_t outputs, source_size;
  int32_t step, upsampling;  // fprop's stride; dgrad's, which is 1 or 2
  int32_t tap_phase;         // less than upsampling
  int32_t origin, taps;
  int32_t threads;      // of a block's tile along this axis
  int32_t tiles;        // along this axis
  int32_t window;       // source coordinates of a tile
  int64_t filter_step;  // elements from a tap to the next

  // Source coordinates that so many neighbouring outputs meet.
  HALOCONV_HOST_DEVICE int32_t cells(int32_t count) const {
    return (((count - 1) * step + taps - 1 + tap_phase) >> (upsampling - 1)) + 1;
  }
  // From their first to the first of the next ones, for as many outputs as `upsampling` divides.
  HALOCONV_HOST_DEVICE int32_t advance(int32_t count) const {
    return count * step >> (upsampling - 1);
  }
};

struct DepthwiseAxes {
  DepthwiseAxis h, w;
  int64_t filter_first;    // of a destination channel, the first tap's element
  FastDiv channels, rows;  // destination channels of an image, of a group
};

// fprop's or dgrad's, tiles still to be set. Nothing where no depthwise kernel takes the problem:
// more than one channel to sum over, dilation, strides other than 1 and 2 (down columns fprop's may
// be 3 and 4), filters that are not 3, 4, 5 or 7 wide or are higher than 16, sums in float64.
std::optional<DepthwiseAxes> make_depthwise_axes(const Conv2dProblem& problem, Direction direction);

// Why no depthwise kernel takes the problem, for one that none takes, not even along lines.
std::string depthwise_declines(const Conv2dProblem& problem, Direction direction);

// Sets the tiles of an axis where each of a block's threads, most_threads at most, has so many
// outputs.
void set_tiles(DepthwiseAxis& axis, int32_t outputs, int64_t most_threads);

}  // namespace haloconv::depthwise
