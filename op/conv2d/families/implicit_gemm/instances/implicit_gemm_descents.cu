#include "conv2d/device/grid.h"
#include "conv2d/device/with_element.h"
#include "conv2d/families/implicit_gemm/descents/kernel.cuh"
#include "conv2d/families/implicit_gemm/instances.h"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::implicit_gemm {

void launch_descents(DataType type, const Arguments& args, cudaStream_t stream) {
  with_element(type, [&]<class T>(T) {
    const auto kernel = implicit_gemm_descents_kernel<T>;
    allow_all_shared_bytes(kernel);
    const int64_t blocks = int64_t{args.geometry.groups} * args.strips.blocks;
    kernel<<<grid_blocks(blocks), 32 * args.strips.groups, descent_shared_bytes(args), stream>>>(
        args);
  });
  check_launch("implicit_gemm descents");
}

}  // namespace haloconv::implicit_gemm
