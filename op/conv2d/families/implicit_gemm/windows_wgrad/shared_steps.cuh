// The steps in shared memory, and the barriers at which those that copy and those that multiply
// wait for each other.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/arguments.h"
#include "conv2d/families/implicit_gemm/windows_wgrad/ring.cuh"
#include "cuda/shared_barrier.cuh"

namespace haloconv::windows_wgrad {

template <Tile kTile>
struct SharedSteps {
  static constexpr uint32_t kBytes = grad_output_piece_bytes(kTile);
  uint32_t barriers, pieces, ring;

  __device__ __forceinline__ SharedSteps(const Arguments& args, uint32_t begin)
      : barriers(begin),
        pieces(begin + kBarrierBytes),
        ring(pieces + args.stages * args.pieces * kBytes) {}

  // Where a step is ready to be multiplied, and where it has been.
  __device__ __forceinline__ uint32_t prepared(int32_t step) const { return barriers + step * 16; }
  __device__ __forceinline__ uint32_t multiplied(int32_t step) const {
    return barriers + step * 16 + 8;
  }

  __device__ __forceinline__ void next_piece(RingPlace& place) const {
    place.next(kBytes, ring, ring - pieces);
  }
  __device__ __forceinline__ void next_row(const Arguments& args, RingPlace& place) const {
    place.next(args.input_row_bytes, ring + args.ring_bytes, args.ring_bytes);
  }

  // By one thread. Of those that multiply, a thread of each warp arrives.
  __device__ __forceinline__ void init_barriers(int32_t stages) const {
    for (int32_t step = 0; step < stages; ++step) {
      init_shared_barrier(prepared(step), kTile.copy_threads());
      init_shared_barrier(multiplied(step), kTile.warps);
    }
  }
};

}  // namespace haloconv::windows_wgrad
