// Launches one kernel.
#pragma once

#include "conv2d/device/grid.h"
#include "conv2d/families/implicit_gemm/instances.h"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::implicit_gemm {

inline void launch_kernel(void (*kernel)(Arguments), const Tile& tile, const Arguments& args,
                          cudaStream_t stream) {
  allow_all_shared_bytes(kernel);
  const int64_t blocks =
      int64_t{args.channel_tiles.divisor} * args.pixel_tiles * args.geometry.groups;
  kernel<<<grid_blocks(blocks), tile.threads(), shared_bytes(tile, args), stream>>>(args);
  check_launch("implicit_gemm");
}

}  // namespace haloconv::implicit_gemm
