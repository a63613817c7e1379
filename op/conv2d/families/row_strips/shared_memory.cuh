// The places in a block's shared memory: the weights, the bias, sums of the cluster's other block,
// the ring of source pixels, barriers.
#pragma once

#include <cstdint>

#include "conv2d/families/row_strips/arguments.h"

namespace haloconv::row_strips {

struct SharedMemory {
  unsigned char* base;
  const Arguments& args;

  __device__ uint4* weights() const { return reinterpret_cast<uint4*>(base); }
  __device__ float* bias() const { return reinterpret_cast<float*>(base + args.bias_at); }
  __device__ unsigned char* exchange() const { return base + args.exchange_at; }
  __device__ unsigned char* ring() const { return base + args.ring_at; }
  __device__ uint64_t* full(int32_t stage) const {
    return reinterpret_cast<uint64_t*>(base + args.barriers_at) + stage;
  }
  __device__ uint64_t* empty(int32_t stage) const { return full(stage) + kMaxStages; }
  // By warpgroup: the other block's sums are here; the other block has read what was sent there.
  __device__ uint64_t* is_sent(int32_t group) const { return full(2 * kMaxStages + group); }
  __device__ uint64_t* is_read(int32_t group) const { return is_sent(group) + 2; }
};

}  // namespace haloconv::row_strips
