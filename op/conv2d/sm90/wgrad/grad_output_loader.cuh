// One load warpgroup: a strip's pixels of grad_output go to the ring as they lie. What is rounded is
// the register operand that the math warps make of them.
#pragma once

#include "conv2d/sm90/mbarrier.cuh"
#include "conv2d/sm90/vector_access.cuh"
#include "conv2d/sm90/wgrad/shared_memory.cuh"

namespace haloconv::sm90::wgrad {

// kFloats neighbours; zeros unless `inside`.
template <int kFloats>
__device__ __forceinline__ void copy_async(uint32_t to, const float* from, bool inside) {
  if constexpr (kFloats == 4) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from),
                 "n"(kFloats * 4), "r"(inside ? kFloats * 4 : 0)
                 : "memory");
  }
}

class GradOutputLoader {
 public:
  __device__ GradOutputLoader(const Arguments& args, const SharedMemory& shared, const Block& block,
                              int32_t thread)
      : args_(args),
        shared_(shared),
        thread_(thread),
        rows_(min(args.tile_rows, args.rows - block.row_tile * args.tile_rows)),
        first_(args.grad_output + (int64_t{block.group} * args.rows +
                                   block.row_tile * args.tile_rows) * args.output_k) {}

  __device__ void run(int32_t first_strip, int32_t strips) {
    RingPosition ring;
    for (int32_t strip = first_strip; strip < first_strip + strips; ++strip) {
      mbarrier_wait(shared_.empty(ring.stage), ring.parity ^ 1);
      const uint32_t stage = shared_address(shared_.grad_output(ring.stage));
      if (args_.vector == 4) {
        copy<4>(strip, stage);
      } else if (args_.vector == 2) {
        copy<2>(strip, stage);
      } else {
        copy<1>(strip, stage);
      }
      // The barrier counts the copies' end.
      cuda::ptx::cp_async_mbarrier_arrive_noinc(shared_.full(ring.stage));
      ring.advance(args_.stages);
    }
  }

 private:
  // A thread copies the same pixels of some rows (output channels). Rows beyond the last stay as
  // they are: they come to sums that nobody reads.
  template <int kVector>
  __device__ __forceinline__ void copy(int32_t strip, uint32_t stage) {
    const int32_t vectors = args_.segment / kVector;  // of a segment
    const int32_t threads_of_row = min(vectors * kSegments, kLoadThreads);
    const int32_t row_step = kLoadThreads / threads_of_row;
    const int32_t first_row = thread_ / threads_of_row;
    if (first_row >= row_step) return;
    for (int32_t vector = thread_ % threads_of_row; vector < vectors * kSegments;
         vector += threads_of_row) {
      const int32_t segment = vector / vectors;
      const int32_t pixel = vector % vectors * kVector;
      const int32_t index = strip * kSegments + segment;
      const Segment at = args_.segment_at(index);
      const bool inside = index < args_.segments && at.column + pixel < args_.q;
      const float* from = first_ + at.image * args_.output_n + int64_t{at.row} * args_.output_p +
                          at.column + pixel + first_row * args_.output_k;
      uint32_t to =
          stage + (first_row * kSegments + segment) * args_.segment_cells * 16 + pixel * 4;
      const int64_t from_step = row_step * args_.output_k;
      const int32_t to_step = row_step * kSegments * args_.segment_cells * 16;
#pragma unroll 4
      for (int32_t left = (rows_ - first_row + row_step - 1) / row_step; left > 0; --left) {
        copy_async<kVector>(to, from, inside);
        from += from_step;
        to += to_step;
      }
    }
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t thread_;
  const int32_t rows_;  // of the tile, which exist
  const float* const first_;
};

}  // namespace haloconv::sm90::wgrad
