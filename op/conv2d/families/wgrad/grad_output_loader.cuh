// One load warpgroup: it copies a strip's pixels of grad_output to the ring as they are. The math
// warps round them when they make register operands of them.
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/wgrad/shared_memory.cuh"
#include "cuda/copy_arrival.cuh"
#include "cuda/copy_async.cuh"
#include "cuda/mbarrier.cuh"

namespace haloconv::wgrad {

// kPressing: it has the registers to enqueue copies one right after the other. If the matrix
// instructions take longer than the copies, such bursts would only delay the math warps' own loads.
// kShifts: whether segments may shift (shifted_segments.h).
template <class T, bool kPressing, bool kShifts>
class GradOutputLoader {
  static constexpr int kSegments = segments_of(sizeof(T)), kBytes = sizeof(T);

 public:
  // vector: how many neighbouring pixels are copied at once.
  __device__ GradOutputLoader(const Arguments& args, const SharedMemory& shared, const Block& block,
                              int32_t thread, int32_t vector)
      : args_(args),
        shared_(shared),
        vector_(vector),
        vectors_(args.segment / vector),
        threads_of_row_(min(vectors_ * kSegments, kLoadThreads)),
        first_vector_(thread % threads_of_row_) {
    const int32_t row_step = kLoadThreads / threads_of_row_;
    const int32_t first_row = thread / threads_of_row_;
    const int32_t tile_row = block.row_tile * args.tile_rows;
    const int32_t rows = min(args.tile_rows, args.rows - tile_row) - first_row;
    copies_ = first_row < row_step ? (rows + row_step - 1) / row_step : 0;
    from_step_ = row_step * args.output_k;
    to_step_ = row_step * args.row_cells(kSegments) * 16;
    from_ = static_cast<const T*>(args.grad_output) +
            (int64_t{block.group} * args.rows + tile_row + first_row) * args.output_k;
    to_ = first_row * args.row_cells(kSegments) * 16;
  }

  // Brings the next `left` strips.
  __device__ __forceinline__ void run(int32_t& strip, int32_t left, RingPosition& ring) {
    for (; left > 0; --left, ++strip) {
      mbarrier_wait(shared_.stage_read(ring.stage), ring.parity ^ 1);
      const uint32_t stage = shared_address(shared_.grad_output(ring.stage));
      if (vector_ == 16 / kBytes) {
        copy<16 / kBytes>(strip, stage);
      } else if (vector_ == 8 / kBytes) {
        copy<8 / kBytes>(strip, stage);
      } else if (kBytes == 2 && vector_ == 2) {
        copy<4 / kBytes>(strip, stage);
      } else {
        copy<1>(strip, stage);
      }
      // The barrier counts the copies' end.
      if (kBytes == 2 && vector_ == 1) {
        cuda::ptx::mbarrier_arrive(shared_.full(ring.stage));
      } else {
        mbarrier_arrive_after_copies(shared_.full(ring.stage));
      }
      ring.advance(args_.stages);
    }
  }

 private:
  // A thread copies the same pixels of some rows (output channels). Rows beyond the last are not
  // written in shared memory: they only contribute to sums that nobody reads.
  template <int kVector>
  __device__ __forceinline__ void copy(int32_t strip, uint32_t stage) const {
    constexpr int kFloats = kVector * kBytes / 4;  // as large
    for (int32_t vector = first_vector_; vector < vectors_ * kSegments; vector += threads_of_row_) {
      int32_t segment = 0;
#pragma unroll
      for (int i = 1; i < kSegments; ++i) segment += vector >= i * vectors_;
      const int32_t pixel = (vector - segment * vectors_) * kVector;
      const Segment at = args_.segment_at(strip, segment, kSegments);
      int32_t column = at.column + pixel;
      if constexpr (kShifts) {
        column = args_.pixel_column(at, pixel, args_.shift_of(args_.step_of(strip)));
      }
      const bool inside = at.exists && column < args_.q;
      const T* from = from_ + at.image * args_.output_n + int64_t{at.row} * args_.output_p + column;
      uint32_t to = stage + to_ + segment * args_.segment_cells * 16 + pixel * kBytes;
      int32_t left = copies_;
      if constexpr (kPressing && kFloats > 0) {
        for (; left >= 4; left -= 4) {
          copy_async_4<kFloats>(to, to_step_, from, from_step_, inside);
          from += 4 * from_step_;
          to += 4 * to_step_;
        }
      }
#pragma unroll 4
      for (; left > 0; --left) {
        if constexpr (kFloats > 0) {
          copy_async<kFloats>(to, from, inside);
        } else {  // less than a copy takes
          uint16_t bits;
          load_global_bits(from, bits, inside);
          store_shared_bits(to, bits);
        }
        from += from_step_;
        to += to_step_;
      }
    }
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t vector_;
  const int32_t vectors_;         // of a segment
  const int32_t threads_of_row_;  // other threads copy other rows
  const int32_t first_vector_;    // of the row's segments
  int32_t copies_;                // rows
  int64_t from_step_;
  int32_t to_step_;
  const T* from_;  // the first row
  uint32_t to_;
};

// Brings all strips of a block: its whole segments by a loader, and then its short ones.
template <class T, bool kPressing, bool kShifts>
__device__ __forceinline__ void load_grad_output(const Arguments& args, const SharedMemory& shared,
                                                 const Block& block, int32_t thread) {
  using Loader = GradOutputLoader<T, kPressing, kShifts>;
  RingPosition ring;
  int32_t strip = args.first_strip(block.split);
  const int32_t strips = args.strips_of(block.split);
  if constexpr (kShifts) {
    const int32_t short_strips = args.short_strips_of(block.split);
    Loader(args, shared, block, thread, args.whole_vector).run(strip, strips - short_strips, ring);
    Loader(args, shared, block, thread, args.output_vector).run(strip, short_strips, ring);
  } else {
    Loader(args, shared, block, thread, args.output_vector).run(strip, strips, ring);
  }
}

}  // namespace haloconv::wgrad
