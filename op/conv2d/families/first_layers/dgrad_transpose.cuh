// Windows of grad_output if its rows are innermost: boxes of 64 channels come to shared memory as
// they lie, and are transposed there.
#pragma once

#include <cuda/ptx>

#include "conv2d/families/first_layers/dgrad_arguments.h"
#include "cuda/expect_bytes.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/mma.cuh"
#include "cuda/store_matrices.cuh"
#include "cuda/tma.cuh"

namespace haloconv::sm90::first_layers {

struct WindowBarriers {
  uint64_t full[kMaxWindows], empty[kMaxWindows], box[kMaxBoxes];
};

// The windows that a warpgroup multiplies, one after the other.
class WindowWalk {
 public:
  __device__ __forceinline__ WindowWalk(const DgradArguments& args, int32_t first, int32_t end)
      : args_(args), at_(first), end_(end) {
    if (!exists()) return;
    part_ = args.part(at_, end_);
    find_row();
  }

  __device__ __forceinline__ bool exists() const { return at_ < end_; }

  __device__ __forceinline__ void next() {
    if (++chunk_ < args_.chunks) return;
    chunk_ = 0;
    ++row_;
    find_row();
  }

  // By one thread.
  __device__ __forceinline__ void ask_for_box(const CUtensorMap& map, uint32_t to,
                                              uint64_t* barrier) const {
    expect_bytes(barrier, static_cast<uint32_t>(args_.box_bytes));
    copy_box(to, &map, shared_address_of(barrier),
             part_.column - (args_.taps_w - 1) - args_.box_shift, chunk_ * (kPixelBytes / 2),
             source_row(), part_.image);
  }

 private:
  __device__ __forceinline__ int32_t source_row() const {
    return args_.first_row + part_.row - (args_.taps_h - 1) + row_;
  }

  // From row_ on the first one that grad_output has.
  __device__ __forceinline__ void find_row() {
    while (exists()) {
      const int32_t rows = part_.rows + args_.taps_h - 1;
      while (row_ < rows && !args_.has_row(source_row())) ++row_;
      if (row_ < rows) return;
      row_ = 0;
      at_ += part_.rows;
      if (exists()) part_ = args_.part(at_, end_);
    }
  }

  const DgradArguments& args_;
  int32_t at_, end_, row_ = 0, chunk_ = 0;
  StripPart part_{};
};

// By a warp: a box has channels whose columns are side by side. Its first columns become columns
// with 64 channels, 128 bytes, swizzled.
__device__ __forceinline__ void transpose_box(int32_t box_columns, int32_t columns, uint32_t from,
                                              uint32_t to) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  // Of 8 columns, matrices of 8 channels: a lane's row of the box, and its column of the window.
  const uint32_t rows = from + lane * box_columns * 2, half = 32 * box_columns * 2;
  const uint32_t column = to + lane % 8 * 128;
  const uint32_t first = column + (lane / 8 ^ lane % 8) * 16;
  const uint32_t second = column + (lane / 8 + 4 ^ lane % 8) * 16;
#pragma unroll 2
  for (int32_t i = 0; i < columns / 8; ++i) {
    uint32_t words[2][4];
    load_matrices_transposed(rows + i * 16, words[0]);
    load_matrices_transposed(rows + half + i * 16, words[1]);
    store_matrices(first + i * 1024, words[0]);
    store_matrices(second + i * 1024, words[1]);
  }
}

// By a warp, for a warpgroup.
__device__ __forceinline__ void transpose_windows(const DgradArguments& args,
                                                  const CUtensorMap& map, uint32_t windows,
                                                  uint32_t boxes, WindowBarriers& barriers,
                                                  int32_t first, int32_t end) {
  const bool is_first_lane = threadIdx.x % 32 == 0;
  WindowWalk asked(args, first, end), now = asked;
  for (int32_t i = 0; i < args.boxes && asked.exists(); ++i, asked.next()) {
    if (is_first_lane) asked.ask_for_box(map, boxes + i * args.box_bytes, &barriers.box[i]);
  }
  RingPosition box, window;
  for (; now.exists(); now.next()) {
    const uint32_t from = boxes + box.stage * args.box_bytes;
    mbarrier_wait(&barriers.box[box.stage], box.parity);
    mbarrier_wait(&barriers.empty[window.stage], window.parity ^ 1);
    transpose_box(args.box_columns, args.transposed_columns, from,
                  windows + window.stage * args.window_bytes);
    // The matrix instruction reads by another path than these writes take.
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncwarp();
    if (is_first_lane) {
      cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                 cuda::ptx::space_shared, &barriers.full[window.stage]);
      if (asked.exists()) asked.ask_for_box(map, from, &barriers.box[box.stage]);
    }
    if (asked.exists()) asked.next();
    box.advance(args.boxes);
    window.advance(args.windows);
  }
}

}  // namespace haloconv::sm90::first_layers
