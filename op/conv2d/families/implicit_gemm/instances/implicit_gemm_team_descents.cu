#include "conv2d/device/grid.h"
#include "conv2d/device/with_element.h"
#include "conv2d/families/implicit_gemm/team_descents/instance.h"
#include "conv2d/families/implicit_gemm/team_descents/kernel.cuh"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::implicit_gemm {

void launch_team_descents(DataType type, const Arguments& args, cudaStream_t stream) {
  with_element(type, [&]<class T>(T) {
    const int64_t blocks =
        int64_t{args.channel_tiles.divisor} * args.geometry.groups * args.strips.blocks;
    const auto kernel = implicit_gemm_team_descents_kernel<T>;
    allow_all_shared_bytes(kernel);
    kernel<<<grid_blocks(blocks), 32 * kTeamWarps,
             team_shared_bytes(args, static_cast<int32_t>(sizeof(T))), stream>>>(args);
  });
  check_launch("implicit_gemm team descents");
}

}  // namespace haloconv::implicit_gemm
