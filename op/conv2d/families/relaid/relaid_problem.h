// The problem that replaces another one: it has the same sizes, or nearly so, in another layout.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "conv2d/families/relaid/arguments.h"
#include "conv2d/families/relaid/block_copy.h"
#include "conv2d/geometry/unfold.h"
#include "conv2d/problem.h"

namespace haloconv::relaid {

// What a weight gradient may be computed as: a forward pass whose channels are pixels or images.
// The output's gradient is its input by pixels, its filter by images: products.h.
enum class Product { kNone, kOfPixels, kOfImages };

struct RelaidProblem {
  Conv2dProblem problem;
  // Whether it has rows innermost, and the original channels; otherwise it is the other way.
  bool has_rows = false;
  // Copies, all but their addresses, of those tensors that do not have that layout already.
  std::optional<TensorCopy> input = {}, filter = {}, output = {};
  // Copies in their place where strides are folded into channels, and of the gradient of a filter
  // whose groups are merged.
  std::optional<BlockCopy> input_blocks = {}, filter_blocks = {};
  // The copy of one value for each channel of the result, such as a bias, if channels were added.
  std::optional<TensorCopy> values = {};
  Product product = Product::kNone;
  std::optional<Unfold> unfolded_input = {};  // the copy of a product of pixels
  // Whether the problem has only those rows and columns of the input that taps can meet, because of
  // a filter of one tap with a stride, or where stride and dilation have a common divisor.
  bool skips_pixels = false;

  // Bytes of the workspace that a copy takes, and that all take together.
  int64_t bytes_of(const std::optional<TensorCopy>& copy) const;
  static int64_t bytes_of(const std::optional<BlockCopy>& copy) {
    return copy ? copy->dense_bytes() : 0;
  }
  int64_t bytes() const {
    return (unfolded_input ? unfolded_input->bytes() : 0) + bytes_of(input) + bytes_of(filter) +
           bytes_of(output) + bytes_of(input_blocks) + bytes_of(filter_blocks);
  }
};

// Why there is none for a problem, whatever it would become, or "".
std::string always_declines(const Conv2dProblem& problem, Direction direction, bool tf32);
// Why there is none of the same groups and strides, for a problem that always_declines() passes, or
// "". `is_aligned`: all tensors begin at 16 bytes.
std::string declines(const Conv2dProblem& problem, Direction direction, bool is_aligned);

// Whether a forward pass or an input gradient has so few input channels that there are kernels made
// for them.
bool has_few_channels(const Conv2dProblem& problem, Direction direction);

// For a problem that declines() passes. `keeps_few`: input channels stay as few as they are.
RelaidProblem relay(const Conv2dProblem& problem, Direction direction, bool is_aligned,
                    bool keeps_few);

// Of a problem that always_declines() passes, forward or the weight gradient: the one without
// strides whose channels are blocks of the input's pixels, as large as a stride. None where the
// filter is not whole such blocks, or there are many channels already.
std::optional<RelaidProblem> fold_strides(const Conv2dProblem& problem, Direction direction,
                                          bool is_aligned);

// The weight gradient's problems of which a group is several of the problem's, each of few
// channels: of what is computed each filter has its group's. All groups as one, channels innermost,
// and with rows innermost the fewest that are of 16 channels. No input meets a weight that is not
// its own, so that an infinity reaches no other results.
std::vector<RelaidProblem> merge_groups(const Conv2dProblem& problem, bool is_aligned);

// The weight gradient's problem with channels innermost, except for the output's gradient, which
// keeps its rows innermost. None if its rows are no whole 16 bytes, or nothing is left to copy.
std::optional<RelaidProblem> relay_around_output(const Conv2dProblem& problem, bool is_aligned);

// The forward pass of float32 with its result as it is wanted, for families that write rows from
// channels innermost. None if rows are not contiguous, or the result has further channels.
std::optional<RelaidProblem> keep_rows_of_result(const Conv2dProblem& problem,
                                                 const RelaidProblem& relaid);

}  // namespace haloconv::relaid
