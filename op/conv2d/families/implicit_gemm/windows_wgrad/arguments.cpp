#include "conv2d/families/implicit_gemm/windows_wgrad/arguments.h"

#include <algorithm>
#include <bit>

#include "conv2d/families/implicit_gemm/arguments.h"
#include "conv2d/families/implicit_gemm/windows_wgrad/splits.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::windows_wgrad {

namespace {

// The most bytes that one copy can bring of rows that begin wherever 4 bytes do, where all images
// and channels begin at whole such granules.
int32_t granule_of_shifted_rows(const Strides& output, int32_t element_bytes) {
  const Strides planes{.n = output.n, .c = output.c, .h = 0, .w = output.w};
  return implicit_gemm::granule_of(planes, element_bytes, 0);
}

// How many rows of the input lie between the first and the last that a tile's taps meet, at most.
int64_t row_reach(const Wgrad& g, int32_t tap_tiles, int32_t tile_taps) {
  int32_t most = 0;
  for (int32_t first = 0; first < tap_tiles * tile_taps; first += tile_taps) {
    const int32_t last = std::min(first + tile_taps, g.taps_h * g.taps_w) - 1;
    most = std::max(most, last / g.taps_w - first / g.taps_w);
  }
  return int64_t{most} * g.dilation_h;
}

// Float32 is rounded for products, and the bias's sum shall not be.
void set_bias(int32_t element_bytes, const Tile& tile, Arguments& args) {
  constexpr int kColumnBlock = 8;  // of the matrix instruction
  const Wgrad& g = args.geometry;
  const int32_t last_tile_tap = (args.tap_tiles - 1) * (tile.columns / args.chunk_channels);
  const int32_t columns = (g.taps_h * g.taps_w - last_tile_tap) * args.chunk_channels;
  args.bias_is_product =
      g.has_bias_column && element_bytes == 2 && columns + kColumnBlock <= tile.columns;
  args.bias_tap = args.bias_is_product ? last_tile_tap : 0;
}

}  // namespace

std::optional<Arguments> make_arguments(const Conv2dProblem& problem, bool with_bias,
                                        const Tile& tile, int pieces, int chunk_channels,
                                        int stages, int64_t splits) {
  constexpr int kLeastGranule = 4;
  if (problem.input.w != 1 || problem.output.w != 1) return std::nullopt;
  const auto element_bytes = static_cast<int32_t>(size_of(problem.type));
  Arguments args{};
  // Granules end where rows do.
  args.grad_output_granule =
      implicit_gemm::granule_of(problem.output, element_bytes, problem.q() * element_bytes);
  args.input_granule =
      implicit_gemm::granule_of(problem.input, element_bytes, problem.w * element_bytes);
  if (std::min(args.grad_output_granule, args.input_granule) < kLeastGranule) return std::nullopt;
  if (tile.copies_apart) {
    args.grad_output_granule = granule_of_shifted_rows(problem.output, element_bytes);
    args.shift_mask = args.grad_output_granule / element_bytes - 1;
  }
  args.geometry = make_wgrad(problem, with_bias);
  args.geometry.channels_last = true;
  const Wgrad& g = args.geometry;

  const int32_t granule_pixels = args.input_granule / element_bytes;
  const int32_t pixels = pieces * piece_pixels(element_bytes);
  args.pieces = pieces;
  const auto row = static_cast<uint32_t>(problem.output.h & args.shift_mask);
  const int32_t most_shift = row == 0 ? 0 : args.shift_mask + 1 - static_cast<int32_t>(row & -row);
  args.left_columns = most_shift + (-(g.pad_left + most_shift) & (granule_pixels - 1));
  const int64_t columns = args.left_columns + pixels + int64_t{g.taps_w - 1} * g.dilation_w;
  const int64_t granules = ceil_div(columns, granule_pixels);
  if (granules > kThreads) return std::nullopt;
  args.input_granules = static_cast<int32_t>(granules);
  args.log_threads = std::bit_width(static_cast<uint32_t>(granules - 1));
  args.line = input_line(args.input_granules * args.input_granule);
  const bool begins_in_words = element_bytes == 4 || (args.left_columns % 2 == 0 &&
                                                      (g.taps_w == 1 || g.dilation_w % 2 == 0));
  args.copies = begins_in_words ? 1 : 2;

  args.chunk_channels = chunk_channels;
  args.chunks = narrow(ceil_div(g.channels, chunk_channels));
  args.row_tiles = narrow(ceil_div(g.rows, tile.rows));
  const int32_t tile_taps = tile.columns / chunk_channels;
  args.tap_tiles = narrow(ceil_div(problem.r * problem.s, tile_taps));
  constexpr int64_t kMostRows = 1 << 16;  // more than any chip has room for
  const int64_t first_rows = row_reach(g, args.tap_tiles, tile_taps);
  if (first_rows > kMostRows) return std::nullopt;
  args.first_rows = static_cast<int32_t>(first_rows);
  args.copy_bytes = chunk_channels * args.line;
  set_bias(element_bytes, tile, args);
  args.ones_at = args.copies * args.copy_bytes;
  args.input_row_bytes = args.ones_at + (args.bias_is_product ? args.line : 0);
  if (!set_stages(stages, args)) return std::nullopt;
  args.next_row = args.input_row_bytes - (pieces - 1) * kPieceBytes;

  args.bands = FastDiv(ceil_div(problem.q() + most_shift, pixels));
  args.band_rows = FastDiv(problem.p());
  const int64_t rows = problem.n * args.bands.divisor * problem.p();
  if (rows > INT32_MAX - kMostRows) return std::nullopt;
  args.rows = static_cast<int32_t>(rows);
  set_splits(splits, tile, args);
  return args;
}

bool set_stages(int stages, Arguments& args) {
  constexpr int64_t kMostBytes = 1 << 20;  // more than any chip has room for
  args.stages = stages;
  args.input_rows = args.first_rows + stages;
  const int64_t ring_bytes = int64_t{args.input_rows} * args.input_row_bytes;
  if (ring_bytes > kMostBytes) return false;
  args.ring_bytes = static_cast<int32_t>(ring_bytes);
  return true;
}

void set_splits(int64_t splits, const Tile& tile, Arguments& args) {
  args.split_rows = narrow(ceil_div(args.rows, std::min<int64_t>(splits, args.rows)));
  args.splits = narrow(ceil_div(args.rows, args.split_rows));
  args.bias_at = args.blocks() * tile.elements();
}

int shared_bytes(const Tile& tile, const Arguments& args) {
  const int barrier_bytes = tile.copies_apart ? kBarrierBytes : 0;
  return barrier_bytes + args.stages * args.pieces * grad_output_piece_bytes(tile) +
         args.ring_bytes;
}

}  // namespace haloconv::windows_wgrad
