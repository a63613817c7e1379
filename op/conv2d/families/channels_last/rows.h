// Forward passes in TF32 whose results have their rows innermost, while what is read has its
// channels innermost: problems of the relaid family, whose results so need no copy. Tiles are those
// of columns, and blocks may share their units as splits.h says, but sums are written as
// (split, channel, pixel), where eight threads have 32 neighbouring bytes of a channel.
#pragma once

#include <cstdint>

#include "conv2d/families/channels_last/splits.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last {

inline constexpr Tile kRowTiles[] = {{128, 64, 32, 4}, {128, 128, 32, 4}, {128, 256, 32, 4}};

// What the kernels are told.
struct RowArguments {
  SplitArguments shares;  // with one split where blocks share no tile
  // Elements between the splits, images and channels of what tiles are written to: the result, or
  // partial sums.
  int64_t split_step, image_step, channel_step;
  int64_t destination_c;  // between channels of the result
};

struct RowLaunch {
  RowArguments args{};
  Launch launch;  // without splits
};

// Whether the output lies so, an image's channel as one row of pixels.
bool writes_rows(const Conv2dProblem& problem, Direction direction);
// Whether these are in whole 16 bytes, as the kernel that adds the sums of splits wants them.
bool adds_row_splits(const Conv2dProblem& problem);

// For a problem that writes_rows(), whose tiles are computed whole, or shared.
RowLaunch make_row_launch(const Conv2dProblem& problem, const Launch& launch, const Tile& tile);
RowLaunch make_row_launch(const Conv2dProblem& problem, const SplitLaunch& split);

// Computes the results, or the sums of all splits.
template <Tile kTile>
void launch_rows(const RowArguments& args, const TensorMaps& maps, int multiprocessors,
                 CUstream_st* stream);

// Adds them.
void launch_add_row_splits(const RowArguments& args, CUstream_st* stream);

}  // namespace haloconv::sm90::channels_last
