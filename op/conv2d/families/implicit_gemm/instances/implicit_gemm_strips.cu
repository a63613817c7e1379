#include "conv2d/device/grid.h"
#include "conv2d/device/with_element.h"
#include "conv2d/families/implicit_gemm/instances.h"
#include "conv2d/families/implicit_gemm/strips/kernel.cuh"

#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::implicit_gemm {

void launch_strips(DataType type, const Arguments& args, cudaStream_t stream) {
  with_element(type, [&]<class T>(T) {
    const auto kernel = implicit_gemm_strips_kernel<T>;
    allow_all_shared_bytes(kernel);
    const int64_t blocks =
        int64_t{args.channel_tiles.divisor} * args.geometry.groups * args.strips.blocks;
    const dim3 threads(kStripTile.threads(), args.strips.groups);
    kernel<<<grid_blocks(blocks), threads,
             strip_shared_bytes(args, static_cast<int32_t>(sizeof(T))), stream>>>(args);
  });
  check_launch("implicit_gemm strips");
}

}  // namespace haloconv::implicit_gemm
