// What the threads do that do not multiply: they bring the rows of each step, prepare them, and are
// ahead of those that multiply.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/bias_sums.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/prepare_row.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/row_loader.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/shared_steps.cuh"
#include "cuda/named_barrier.cuh"

namespace haloconv::windows_wgrad {

template <class T, Tile kTile>
__device__ __forceinline__ void copy_rows(const Arguments& args, const BlockPosition& at,
                                          const SharedSteps<kTile>& steps) {
  const bool sums_bias = at.sums_bias(args) && !args.bias_is_product;
  RowLoader<T, kTile> loader(args, at);
  BiasSums<T, kTile> bias;
  RingPlace copied_piece{steps.pieces}, copied_row{steps.ring};
  RingPlace prepared_piece{steps.pieces}, prepared_row{steps.ring};
  const auto copy_step = [&] {
    if (!loader.has_ended()) {
#pragma unroll 1
      for (int32_t piece = 0; piece < args.pieces; ++piece) {
        if (loader.multiplies()) loader.copy_piece(copied_piece.at, piece);
        steps.next_piece(copied_piece);
      }
      loader.copy_input(copied_row.at);
      steps.next_row(args, copied_row);
      loader.next();
    }
    commit_copies();
  };

#pragma unroll 1
  for (int32_t i = kReadyStages; i < args.stages; ++i) copy_step();
  Walk walk(args, at.split);
  RingStep prepared, multiplied;
  int32_t summed = 0;  // pixels
  bool is_first = true;
#pragma unroll 1
  for (int32_t step = 0; !walk.has_ended(); ++step) {
    if (step >= kReadyStages) {
      // The step that had the place of the one that is copied now.
      wait_at_shared_barrier(steps.multiplied(multiplied.number), multiplied.parity);
      multiplied.advance(args.stages);
    }
    copy_step();
    if (args.stages == kMostStages) {
      wait_for_groups<kMostStages - kReadyStages>();
    } else {
      wait_for_groups<kLeastStages - kReadyStages>();
    }
    sync_threads<kTile.copy_threads()>();
    prepare_row<T, kTile>(args, prepared_row.at);
    steps.next_row(args, prepared_row);
#pragma unroll 1
    for (int32_t piece = 0; piece < args.pieces; ++piece) {
      if (walk.multiplies()) prepare_piece<T, kTile>(prepared_piece.at, sums_bias, bias);
      steps.next_piece(prepared_piece);
    }
    arrive_at_shared_barrier(steps.prepared(prepared.number));
    prepared.advance(args.stages);
    if (walk.multiplies()) {
      summed += args.pieces * piece_pixels(sizeof(T));
      if (sums_bias && (summed >= kRoundPixels || walk.rows == 1)) {
        bias.add_to_partial(args, at, is_first);
        summed = 0;
        is_first = false;
      }
    }
    walk.next(args);
  }
}

}  // namespace haloconv::windows_wgrad
