// Batch norm in training of tensors with channels innermost: how blocks share a tensor (rows,
// channels), whose rows are the pixels of all images.
//
// A unit is 8 channels of a row, 16 bytes. A block has a slice of the channels, `slice_units` units
// wide, and a chunk of the rows; each of its threads has one unit of every `lanes`-th row. All
// blocks run at once, because they wait for each other between the sums and what follows from them.
#pragma once

#include <cstdint>
#include <optional>

namespace haloconv::batch_norm {

inline constexpr int kThreads = 512;
inline constexpr int kUnit = 8;  // channels

struct Plan {
  int64_t rows = 0, channels = 0;
  int64_t chunk_rows = 0;  // rows of a chunk; the last one may have fewer
  int32_t slice_units = 0, slices = 0;
  int32_t lanes = 0;   // threads that share a column of units
  int32_t chunks = 0;  // blocks that share a slice

  int32_t blocks() const { return slices * chunks; }
  int32_t slice_channels() const { return slice_units * kUnit; }
  // Two numbers of each channel for each chunk.
  int64_t workspace_bytes() const { return int64_t{8} * chunks * channels; }
};

// The plan for a GPU with that many multiprocessors; none if the channels are not whole units, or
// have no divisor that suits a block.
std::optional<Plan> make_plan(int64_t rows, int64_t channels, int multiprocessors);

}  // namespace haloconv::batch_norm
