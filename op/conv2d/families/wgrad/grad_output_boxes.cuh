// One thread has the copy engine bring a strip's pixels of grad_output to the ring, in boxes.
#pragma once

#include <cuda/ptx>

#include "conv2d/families/wgrad/row_maps.h"
#include "conv2d/families/wgrad/shared_memory.cuh"
#include "cuda/expect_bytes.cuh"
#include "cuda/mbarrier.cuh"

namespace haloconv::wgrad {

class GradOutputBoxes {
 public:
  __device__ GradOutputBoxes(const Arguments& args, const RowMaps& maps, const SharedMemory& shared,
                             const Block& block)
      : args_(args), maps_(maps), shared_(shared), block_(block) {}

  __device__ void run() const {
    const int32_t bytes = kBoxSegments * args_.segment_boxes * args_.box_bytes;
    RingPosition ring;
    int32_t strip = args_.first_strip(block_.split);
    for (int32_t left = args_.strips_of(block_.split); left > 0; --left, ++strip) {
      mbarrier_wait(shared_.stage_read(ring.stage), ring.parity ^ 1);
      Segment segments[kBoxSegments];
#pragma unroll
      for (int i = 0; i < kBoxSegments; ++i) {
        segments[i] = args_.segment_at(strip, i, kBoxSegments);
        shared_.shifts(ring.stage)[i] = args_.column_shift[map_of(segments[i])] * 4;
      }
      // The barrier counts the bytes that are on their way.
      uint64_t* const barrier = shared_.full(ring.stage);
      expect_bytes(barrier, bytes);
      unsigned char* to = shared_.grad_output(ring.stage);
#pragma unroll
      for (int i = 0; i < kBoxSegments; ++i, to += args_.segment_bytes) {
        copy(segments[i], to, barrier);
      }
      ring.advance(args_.stages);
    }
  }

 private:
  __device__ __forceinline__ int32_t map_of(const Segment& at) const {
    return at.row & (args_.row_maps - 1);
  }

  // Beyond the last row and column the engine writes zeros.
  __device__ __forceinline__ void copy(const Segment& at, unsigned char* to,
                                       uint64_t* barrier) const {
    const CUtensorMap* const map = &maps_.of_row[map_of(at)];
    const int32_t row = at.exists ? at.row / args_.row_maps : args_.p;
    const int32_t channel = block_.group * args_.rows + block_.row_tile * args_.tile_rows;
    for (int32_t i = 0; i < args_.segment_boxes; ++i) {
      const int32_t place[] = {at.column + i * args_.box_columns, row, channel, at.image};
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global,
                                      to + i * args_.box_bytes, map, place, barrier);
    }
  }

  const Arguments& args_;
  const RowMaps& maps_;
  const SharedMemory& shared_;
  const Block& block_;
};

}  // namespace haloconv::wgrad
