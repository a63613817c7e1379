#include <algorithm>
#include <stdexcept>

#include "conv2d/sm90/gather/arguments.h"
#include "conv2d/sm90/gather/fill_zeros.h"
#include "conv2d/sm90/gather/instances.h"
#include "conv2d/sm90/gather/pack_filter.h"
#include "conv2d/sm90/scatter/launch.h"
#include "conv2d/sm90/sm90.h"
#include "cuda_check.h"

namespace haloconv::sm90 {

namespace {

int multiprocessors() {
  int device = 0, count = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute");
  return count;
}

void launch(const Tile& tile, const Arguments& args, unsigned blocks, cudaStream_t stream) {
  const auto launch_one = [&](auto* plain, auto* with_fusion) {
    (args.fusion.is_none() ? plain : with_fusion)(args, blocks, stream);
  };
  switch (tile.instructions * 1000 + tile.width) {
    case 4064:
      return launch_one(launch_4x64, launch_4x64_fused);
    case 4056:
      return launch_one(launch_4x56, launch_4x56_fused);
    case 2104:
      return launch_one(launch_2x104, launch_2x104_fused);
    case 2064:
      return launch_one(launch_2x64, launch_2x64_fused);
    case 2056:
      return launch_one(launch_2x56, launch_2x56_fused);
  }
  throw std::logic_error("haloconv: no sm90 kernel has this tile");
}

// How many neighbouring pixels of the output may be written at once.
int32_t vector_of(const Arguments& args) {
  const auto fits = [&](int64_t n) {
    return args.destination_w == 1 && args.destination_n % n == 0 && args.destination_c % n == 0 &&
           args.folded.step % n == 0 && args.w.outputs % n == 0 &&
           reinterpret_cast<uintptr_t>(args.destination) % (n * 4) == 0 &&
           reinterpret_cast<uintptr_t>(args.fusion.residual) % (n * 4) == 0;
  };
  return fits(4) ? 4 : fits(2) ? 2 : 1;
}

}  // namespace

void launch_gather(const Conv2dProblem& whole, const Plan& plan, const float* source,
                   const float* filter, const float* bias, const Fusion& fusion, float* destination,
                   void* workspace, cudaStream_t stream) {
  if (!fusion.is_none() && !takes_fusion(plan)) {
    throw std::logic_error("haloconv: a fusion was given to a plan whose kernel takes none");
  }
  const Conv2dProblem problem = flattened(whole);
  if (plan.scatter) {
    return scatter::launch(problem, *plan.scatter, source, filter, bias, destination, workspace,
                           multiprocessors(), stream);
  }
  const std::vector<Launch> launches = make_launches(problem, plan);
  if (launches.empty()) {
    throw std::logic_error("haloconv: the sm90 kernels have no tiles of this plan");
  }
  auto* const counters =
      reinterpret_cast<uint32_t*>(static_cast<char*>(workspace) + packed_bytes(launches));
  for (PackArguments& pack : make_pack_arguments(problem, plan, launches)) {
    pack.filter = filter;
    pack.packed = workspace;
    pack.counters = counters;
    launch_pack_filter(pack, stream);
  }
  if (auto zeros = make_zero_arguments(problem, plan.direction)) {
    zeros->destination = destination;
    launch_fill_zeros(*zeros, stream);
  }
  const int blocks = multiprocessors();
  for (size_t i = 0; i < launches.size(); ++i) {
    const Launch& made = launches[i];
    Arguments args = made.arguments;
    args.source = source;
    args.packed = static_cast<const char*>(workspace) + made.packed_at;
    args.bias = bias;
    args.destination = destination + made.destination_at;
    args.fusion = fusion;
    // The kernels with a fusion keep the lead in every tile where it leaves a window of the ring
    // free.
    if (!fusion.is_none()) args.lead = std::min(args.lead, std::max(args.stages - 2, 1));
    if (fusion.residual != nullptr) {
      args.fusion.residual = static_cast<const float*>(fusion.residual) + made.destination_at;
    }
    args.source_vector = args.even && reinterpret_cast<uintptr_t>(source) % 8 == 0 ? 2 : 1;
    args.vector = vector_of(args);
    args.tile_counter = counters + i;
    args.clusters = std::min<uint32_t>(args.tiles, blocks / args.splits);
    launch(plan.tile, args, args.clusters * args.splits, stream);
  }
}

}  // namespace haloconv::sm90
