// Weight and bias gradients by windows of the input: arguments.h.
//
// All of a block's threads copy, prepare and multiply, with one barrier a step. In step t its row
// of grad_output is multiplied with the ring's rows; the rows of step t + 2, whose copies have
// arrived, are prepared; and the copies of a step further ahead begin.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/bias_sums.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/mainloop.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/partial.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/prepare_row.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/ring.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/step_loader.cuh"

namespace haloconv::windows_wgrad {

template <class T, int kIndex>
__global__ void __launch_bounds__(kThreads, 1)
    windows_wgrad_kernel(const __grid_constant__ Arguments args) {
  constexpr Tile kTile = kTiles[kIndex];
  constexpr int32_t kPixels = piece_pixels(sizeof(T));
  constexpr uint32_t kBytes = grad_output_piece_bytes(kTile);
  extern __shared__ __align__(128) unsigned char shared[];
  const BlockPosition at(args, kTile);
  const WarpPosition warp(args, at, kTile);
  const bool sums_bias = at.sums_bias(args) && !args.bias_is_product;

  const uint32_t pieces = shared_address(shared);
  const uint32_t ring = pieces + args.stages * args.pieces * kBytes;
  const auto next_piece = [&](RingPlace& place) { place.next(kBytes, ring, ring - pieces); };
  const auto next_row = [&](RingPlace& place) {
    place.next(args.input_row_bytes, ring + args.ring_bytes, args.ring_bytes);
  };
  Sums<kTile> sums = {};
  BiasSums<T, kTile> bias;
  Products<T, kTile> products(args, at, warp, ring, /*first_shift=*/0, sums);
  StepLoader<T, kTile> loader(args, at);
  RingPlace copied_piece{pieces}, copied_row{ring};
  const auto end_copies = [&] {
    commit_copies();
    loader.next();
    next_row(copied_row);
  };
  const auto copy_step = [&] {
#pragma unroll 1
    for (int32_t piece = 0; piece < args.pieces; ++piece) {
      loader.copy_piece(copied_piece.at, piece);
      next_piece(copied_piece);
    }
    loader.copy_input(copied_row.at);
    end_copies();
  };

#pragma unroll 1
  for (int32_t i = 1; i < args.stages; ++i) copy_step();
  if (args.bias_is_product) write_ones<T>(args, ring);
  wait_for_copies();
  __syncthreads();
  RingPlace prepared_piece{pieces}, prepared_row{ring};
  // The bias's sums are ahead of the products too: steps behind the last have zeros.
  const auto prepare = [&] {
    prepare_row<T, kTile>(args, prepared_row.at);
    next_row(prepared_row);
#pragma unroll 1
    for (int32_t piece = 0; piece < args.pieces; ++piece) {
      prepare_piece<T, kTile>(prepared_piece.at, sums_bias, bias);
      next_piece(prepared_piece);
    }
  };
#pragma unroll 1
  for (int i = 0; i < 2; ++i) prepare();
  __syncthreads();
  RingPlace multiplied{pieces}, following{pieces};
  next_piece(following);
  products.load(multiplied.at);
  const auto next_multiplied = [&] {
    multiplied = following;
    next_piece(following);
  };
  // Of a step the pieces all of whose pixels exist. The loop is one block of code without a branch:
  // asked for each piece what is asked for each step now, it took 2,670 cycles a piece for 2,470.
  const auto multiply_whole = [&]<int kBytes>(std::integral_constant<int, kBytes>, int32_t count) {
#pragma unroll 1
    for (int32_t piece = 0; piece < count; ++piece) {
      loader.begin_piece(copied_piece.at, piece);
      products.multiply(
          multiplied.at, following.at, AllPixels(),
          [is_last = piece + 1 == args.pieces] { return is_last; },
          [&](int depth) { loader.template copy_depth<kBytes>(depth); });
      next_piece(copied_piece);
      next_multiplied();
    }
  };
  // The others, from the first on.
  const auto multiply_others = [&](int32_t first, int32_t pixels) {
#pragma unroll 1
    for (int32_t piece = first; piece < args.pieces; ++piece) {
      loader.copy_piece(copied_piece.at, piece);
      products.multiply(
          multiplied.at, following.at, FirstPixels<T>{pixels - piece * kPixels},
          [is_last = piece + 1 == args.pieces] { return is_last; }, [](int) {});
      next_piece(copied_piece);
      next_multiplied();
    }
  };
  const auto prepare_and_copy = [&] {
    prepare();
    loader.copy_input(copied_row.at);
  };

  // Of two warps that share a scheduler one multiplies while the other prepares.
  const bool prepares_first = warp.number < 4;
  const int32_t step_pixels = args.pieces * kPixels;
  Walk walk(args, at.split);
  int32_t pixels = args.geometry.q.divisor - walk.column(args, step_pixels);
  int32_t summed = 0;  // pixels
  bool is_first = true;
#pragma unroll 1
  while (!walk.has_ended()) {
    // Until the copies of the next step but one are there.
    if (args.stages == kMostStages) {
      wait_for_groups<kMostStages - 4>();
    } else {
      wait_for_copies();
    }
    __syncthreads();  // of all threads; and nobody reads the step before
    if (walk.multiplies()) {
      if (prepares_first) prepare_and_copy();
      const int32_t whole = min(pixels / kPixels, args.pieces);
      // The copies' bytes are known to the compiler, since the others would take issue slots.
      if (args.grad_output_granule == 16) {
        multiply_whole(std::integral_constant<int, 16>(), whole);
      } else if (args.grad_output_granule == 8) {
        multiply_whole(std::integral_constant<int, 8>(), whole);
      } else {
        multiply_whole(std::integral_constant<int, 4>(), whole);
      }
      multiply_others(whole, pixels);
      if (!prepares_first) prepare_and_copy();
      end_copies();
      summed += step_pixels;
      if (summed >= kRoundPixels || walk.rows == 1) {
        add_to_partial(args, warp, is_first, sums);
        if (sums_bias) bias.add_to_partial(args, at, is_first);
        summed = 0;
        is_first = false;
        products.load(multiplied.at);  // once more, so that no register keeps them meanwhile
      }
    } else {
      copy_step();
      prepare();
#pragma unroll 1
      for (int32_t piece = 0; piece < args.pieces; ++piece) {
        next_multiplied();
        products.advance(piece + 1 == args.pieces);
      }
      products.load(multiplied.at);
    }
    if (walk.next(args)) pixels = args.geometry.q.divisor - walk.column(args, step_pixels);
  }
}

}  // namespace haloconv::windows_wgrad
