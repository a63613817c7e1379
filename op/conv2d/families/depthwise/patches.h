// Depthwise fprop and dgrad of tensors with channels innermost: a thread has a patch of pixels of
// two neighbouring channels, and a block a rectangle of patches, whose window it brings to shared
// memory at once. Pure host arithmetic.
//
//      window of a block                   patches, 3 x 2 here
//     +--------------------+              +------+------+------+
//     |  halo              |              | 4x7  |      |      |
//     |    +------------+  |    taps      +------+------+------+
//     |    |            |  |   ------>    |      |      |      |
//     |    +------------+  |              +------+------+------+
//     +--------------------+
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/families/depthwise/axes.h"

namespace haloconv::depthwise {

inline constexpr int kPixelBytes = 64;     // of a block's channels
inline constexpr int kPatchThreads = 256;  // of a block, at most
inline constexpr int kPatchRows = 4;

// Of a patch: without a forward stride so many that groups of lanes side by side meet different
// banks of shared memory; even where dgrad has a stride, so that all patches begin at the same of
// its phases.
HALOCONV_HOST_DEVICE constexpr int patch_columns(int step, int upsampling) {
  return step == 2 ? 4 : (upsampling == 2 ? 6 : 7);
}

// The outputs of both axes begin `shift` before the destination's first, so that the first tap
// always meets a source coordinate: tap_phase is 0.
struct Patches : DepthwiseAxes {  // h.threads and w.threads: patches of a block
  int32_t shift_h, shift_w;
  int32_t lanes;  // of a patch: pairs of channels
  int32_t tiles;  // of all images, for some channels
  int32_t words;  // in which a pixel's channels are brought
  FastDiv channel_tiles, tiles_h, tiles_w, patches_w, window_w;

  int32_t threads() const { return h.threads * w.threads * lanes; }
  int64_t blocks() const { return int64_t{tiles} * channel_tiles.divisor; }
  int64_t window_bytes() const { return int64_t{h.window} * w.window * kPixelBytes; }
  // With the filters, in float32.
  int64_t shared_bytes() const { return window_bytes() + int64_t{8} * lanes * h.taps * w.taps; }
  // Expected on so many multiprocessors.
  static constexpr int64_t kMultiprocessors = 132;
  double cycles() const;
};

// Nothing where the kernel does not take the problem: wgrad, what make_depthwise_axes() does not
// take, several outputs of a channel, filters that are not square, strides that differ, or where
// channels are not innermost.
std::optional<Patches> make_patches(const Conv2dProblem& problem, Direction direction);

}  // namespace haloconv::depthwise
