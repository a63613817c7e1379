// Launches one kernel.
#pragma once

#include "conv2d/device/grid.h"
#include "conv2d/families/implicit_gemm/instances.h"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::implicit_gemm {

inline void launch_kernel(void (*kernel)(Arguments), const Tile& tile, const Arguments& args,
                          cudaStream_t stream) {
  // The same at every call for a device: another thread's launch may come between this and ours.
  const int bytes = shared_bytes(tile, args);
  allow_shared_bytes(kernel, bytes);
  const int64_t blocks =
      int64_t{args.channel_tiles.divisor} * args.pixel_tiles * args.geometry.groups;
  kernel<<<grid_blocks(blocks), tile.threads(), bytes, stream>>>(args);
  check_launch("implicit_gemm");
}

}  // namespace haloconv::implicit_gemm
