// The places in a block's shared memory: the weights, the bias, zeros, the staged products, the
// ring of source pixels, barriers.
#pragma once

#include <cstdint>

#include "conv2d/families/few_channels/arguments.h"

namespace haloconv::few_channels {

struct SharedMemory {
  unsigned char* base;
  const Arguments& args;

  __device__ uint4* weights() const { return reinterpret_cast<uint4*>(base); }
  __device__ float* bias() const { return reinterpret_cast<float*>(base + args.bias_at); }
  // (tap of a row, destination channel): the sums of zeros.cuh.
  __device__ float* zeros() const { return reinterpret_cast<float*>(base + args.zeros_at); }
  __device__ unsigned char* staged() const { return base + args.staged_at; }
  __device__ unsigned char* ring() const { return base + args.ring_at; }
  __device__ uint64_t* full(int32_t stage) const {
    return reinterpret_cast<uint64_t*>(base + args.barriers_at) + stage;
  }
  __device__ uint64_t* empty(int32_t stage) const { return full(stage) + kMaxStages; }
  // Complete when products are staged, and when they have been read; in shuffled_epilogue.cuh, what
  // the first group's last warp hands to the second group's first.
  __device__ uint64_t* is_staged() const { return full(2 * kMaxStages); }
  __device__ uint64_t* is_read() const { return is_staged() + 1; }
};

}  // namespace haloconv::few_channels
