// Tiles whose units several blocks share, of forward passes that have too few tiles for all
// multiprocessors: each block writes its sums, in float32, as (split, pixel, channel), and a second
// kernel adds them in the order of the splits, with what is fused.
#pragma once

#include <cstdint>
#include <optional>

#include "chip/chip.h"
#include "conv2d/families/channels_last/arguments.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

struct CUstream_st;

namespace haloconv::sm90::channels_last {

struct TensorMaps;

// Those of few sums, of which two blocks share a multiprocessor.
inline constexpr Tile kSplitTiles[] = {
    {128, 64, 64}, {128, 128, 64}, {128, 64, 32, 4}, {128, 128, 32, 4}};

// What the kernels are told.
struct SplitArguments {
  Arguments args;        // of one phase; its tiles are those of one split
  int32_t splits;        // of each tile
  int32_t split_stages;  // of a split; the last may have fewer
  FastDiv taps_w;        // of the phase
  FastDiv tiles;         // of a split
  float* partial;        // set for the launch

  int64_t partial_bytes() const {
    return int64_t{splits} * args.phase[0].pixels * args.results.channels * int64_t{sizeof(float)};
  }
};

struct SplitLaunch {
  SplitArguments args{};
  Launch launch;  // without splits
};

// A launch whose tiles so many blocks share, or a few less, as whole stages allow. None if it has
// other than one phase, or too few stages.
std::optional<SplitLaunch> make_split_launch(const Launch& launch, const Tile& tile, int64_t splits,
                                             int multiprocessors);

// Computes the sums of all splits.
template <Tile kTile>
void launch_splits(const SplitArguments& args, const TensorMaps& maps, DataType type,
                   int multiprocessors, CUstream_st* stream);

// Adds them.
void launch_add_splits(const SplitArguments& args, DataType type, CUstream_st* stream);

}  // namespace haloconv::sm90::channels_last
