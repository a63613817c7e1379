// Depthwise convolutions along lines: tensors of one row, whose elements are side by side, as
// one-dimensional convolutions reach op/. A thread computes vectors of 16 bytes of the output; the
// elements of the source that they meet come to its registers as vectors too:
//
//   output of a line              | q0  q1  q2  q3 |               one vector
//                                   :                  its taps
//   source, at a shift    | x   x   s0  s1 | s2  s3  s4  s5 | s6     vectors at multiples of 16
//   bytes
//
// No line need begin at 16 bytes. Neighbours meet the same vectors, which the L1 cache has then.
// Pure host arithmetic.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

inline constexpr int kLineThreads = 256;  // of a block, at most
inline constexpr int kMostLineTaps = 64;
// Taps that a thread has in registers at a time, at most: of fprop and dgrad, of wgrad.
inline constexpr int kMostTapsAtOnce = 8;
inline constexpr int kMostWgradTapsAtOnce = 32;

// Elements of a vector.
HALOCONV_HOST_DEVICE constexpr int line_elements(int64_t element_size) {
  return static_cast<int>(16 / element_size);
}
// Vectors that a thread has at once, where it has so many taps at a time: of fprop and dgrad, of
// wgrad. More share what each thread begins with, fewer leave registers for more threads; those
// that took the least time on an H100 (benchmarks/NOTES.md).
HALOCONV_HOST_DEVICE constexpr int line_vectors(int tap_block, int64_t element_size) {
  return tap_block == 4 && element_size == 4 ? 4 : 2;
}
HALOCONV_HOST_DEVICE constexpr int line_wgrad_vectors(int tap_block, int64_t element_size) {
  return tap_block == 4 && element_size == 4 ? 2 : 1;
}

// The tap that lies t after the first meets the source's element output + origin + t*dilation.
struct LineAxis {
  int32_t outputs, source_size;
  int32_t origin, taps, dilation;
  int32_t tap_block;       // taps at a time: 1 (with dilation), 4, 8; of wgrad 4, 8, 32
  FastDiv channels, rows;  // destination channels of an image, of a group
};

// fprop and dgrad.
struct Lines : LineAxis {
  int64_t filter_first, filter_step;  // elements to a channel's first tap, from a tap to the next
  int32_t lines;                      // of the destination: images * channels
  int32_t block_lines;                // of a block
  FastDiv line_threads, line_tiles;   // threads side by side on a line, a line's parts
  int32_t threads;                    // of a block
  int64_t blocks;
};

// wgrad: a block has one channel, and some of its taps. The axis is fprop's, whose outputs are the
// output gradient's.
struct LinesWgrad : LineAxis {
  int32_t images;
  FastDiv tap_blocks;
  int32_t threads;       // of a block
  int32_t tile_vectors;  // what all of these do at once
  int32_t tiles;         // of a channel
};

// Vectors of a line that hold all of its elements, of lines that begin at 16 bytes or anywhere.
int32_t vectors_of_line(int64_t elements, int64_t element_size, bool is_aligned);
// Whether all lines of a tensor begin at 16 bytes where the first does.
bool lines_are_aligned(const Strides& strides, int64_t element_size);

// Nothing where the kernels do not take the problem: more than one channel to sum over, several
// rows, strides, more than 64 taps, elements that are not side by side, sums in float64; in wgrad
// dilation.
std::optional<Lines> make_lines(const Conv2dProblem& problem, Direction direction);
std::optional<LinesWgrad> make_lines_wgrad(const Conv2dProblem& problem);

}  // namespace haloconv::depthwise
