// What the warps do that multiply and nothing else.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/mainloop.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/partial.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/shared_steps.cuh"

namespace haloconv::windows_wgrad {

template <class T, Tile kTile>
__device__ __forceinline__ void multiply_rows(const Arguments& args, const BlockPosition& at,
                                              const SharedSteps<kTile>& steps) {
  constexpr int32_t kPixels = piece_pixels(sizeof(T));
  constexpr auto kElementBytes = static_cast<int32_t>(sizeof(T));
  const WarpPosition warp(args, at, kTile);
  Walk walk(args, at.split);
  Sums<kTile> sums = {};
  Products<T, kTile> products(args, at, warp, steps.ring, row_shift(args, walk.y), sums);
  RingPlace multiplied{steps.pieces}, following{steps.pieces};
  steps.next_piece(following);
  const auto next_multiplied = [&] {
    multiplied = following;
    steps.next_piece(following);
  };
  const int32_t step_pixels = args.pieces * kPixels;
  int32_t column = walk.column(args, step_pixels);
  int32_t summed = 0;  // pixels
  bool is_first = true;
  RingStep step, next;
  wait_at_shared_barrier(steps.prepared(0), 0);
  products.load(multiplied.at);
#pragma unroll 1
  while (!walk.has_ended()) {
    // The next step's first operands are loaded beside this one's last products.
    next.advance(args.stages);
    if (walk.rows > 1 || !walk.multiplies()) {
      wait_at_shared_barrier(steps.prepared(next.number), next.parity);
    }
    const int32_t shift = row_shift(args, walk.y);
    const int32_t next_y = walk.y + 1 < args.band_rows.divisor ? walk.y + 1 : -args.first_rows;
    const int32_t step_bytes = args.next_row + (shift - row_shift(args, next_y)) * kElementBytes;
    const auto piece_bytes = [&](int32_t piece) {
      return piece + 1 == args.pieces ? step_bytes : kPieceBytes;
    };
    const auto nothing_between = [](int) {};
    const bool multiplies = walk.multiplies();
    if (multiplies) [[likely]] {
      // Pixels of the step that exist.
      const int32_t first = max(shift - column, 0), end = args.geometry.q.divisor + shift - column;
      const int32_t whole = first > 0, end_whole = min(end / kPixels, args.pieces);
      int32_t piece = 0;
#pragma unroll 1
      do {
        if (piece >= whole) {
#pragma unroll 1
          for (; piece < end_whole; ++piece) {
            products.multiply(
                multiplied.at, following.at, AllPixels(), [&] { return piece_bytes(piece); },
                nothing_between);
            next_multiplied();
          }
        }
        if (piece < args.pieces) [[unlikely]] {
          const auto word = [&](int32_t pixel) {
            return (pixel - piece * kPixels) * kElementBytes / 4;
          };
          products.multiply(
              multiplied.at, following.at, PixelWords{word(first), word(end)},
              [&] { return piece_bytes(piece); }, nothing_between);
          next_multiplied();
          ++piece;
        }
      } while (piece < args.pieces);
    } else {
#pragma unroll 1
      for (int32_t piece = 0; piece < args.pieces; ++piece) {
        next_multiplied();
        products.advance(piece_bytes(piece));
      }
      products.load(multiplied.at);
    }
    __syncwarp();
    if (warp.lane == 0) arrive_at_shared_barrier(steps.multiplied(step.number));
    step = next;
    if (multiplies) {
      summed += step_pixels;
      if (summed >= kRoundPixels || walk.rows == 1) [[unlikely]] {
        add_to_partial(args, warp, is_first, sums);
        summed = 0;
        is_first = false;
        products.load(multiplied.at);  // once more, so that no register keeps them meanwhile
      }
    }
    if (walk.next(args)) column = walk.column(args, step_pixels);
  }
}

}  // namespace haloconv::windows_wgrad
