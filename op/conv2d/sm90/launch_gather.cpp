#include <algorithm>
#include <stdexcept>

#include "conv2d/gather.h"
#include "conv2d/integers.h"
#include "conv2d/sm90/arguments.h"
#include "conv2d/sm90/instances.h"
#include "conv2d/sm90/pack_filter.h"
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
  const bool wide = tile.width == 64;
  switch (tile.instructions) {
    case 4:
      return (wide ? launch_4x64 : launch_4x56)(args, blocks, stream);
    case 2:
      return (wide ? launch_2x64 : launch_2x56)(args, blocks, stream);
  }
  throw std::logic_error("haloconv: no sm90 kernel has this tile");
}

// How many neighbouring pixels of the output may be written at once.
int32_t vector_of(const Arguments& args) {
  if (args.aligned) return 4;
  const auto fits = [&](int64_t n) {
    return args.destination_w == 1 && args.destination_n % n == 0 && args.destination_c % n == 0 &&
           args.destination_h % n == 0 && args.w.outputs % n == 0 &&
           reinterpret_cast<uintptr_t>(args.destination) % (n * 4) == 0;
  };
  return fits(4) ? 4 : fits(2) ? 2 : 1;
}

PackArguments pack_arguments(const Gather& gather, const Phase& phase, const Arguments& args) {
  PackArguments pack{};
  pack.group = gather.filter_group;
  pack.row = gather.filter.n;
  pack.channel = gather.filter.c;
  pack.r = gather.filter.h;
  pack.s = gather.filter.w;
  pack.channels = args.channels;
  pack.rows = args.rows;
  pack.taps = args.taps;
  pack.taps_s = args.w.taps;
  pack.first_r = phase.h.first_tap;
  pack.step_r = gather.axis_h.tap_step;
  pack.first_s = phase.w.first_tap;
  pack.step_s = gather.axis_w.tap_step;
  pack.row_groups = args.row_tiles * (args.share == Share::kChannels ? kMathGroups : 1);
  pack.packed_steps = args.packed_steps;
  return pack;
}

}  // namespace

void launch_gather(const Conv2dProblem& whole, const Plan& plan, const float* source,
                   const float* filter, const float* bias, float* destination, void* workspace,
                   cudaStream_t stream) {
  const Conv2dProblem problem = flattened(whole);
  const Gather gather = make_gather(problem, plan.direction);
  const Phase phase = make_phases(problem, plan.direction).front();
  std::optional<Arguments> made = make_arguments(problem, plan, phase);
  if (!made) throw std::logic_error("haloconv: the sm90 kernels have no tiles of this plan");
  Arguments& args = *made;
  PackArguments pack = pack_arguments(gather, phase, args);
  pack.filter = filter;
  pack.packed = static_cast<uint4*>(workspace);
  launch_pack_filter(pack, gather.groups, stream);
  args.source = source;
  args.packed = pack.packed;
  args.bias = bias;
  args.destination = destination;
  args.vector = vector_of(args);
  const int64_t clusters = std::min<int64_t>(args.tiles, multiprocessors() / args.splits);
  launch(plan.tile, args, static_cast<unsigned>(clusters * args.splits), stream);
}

}  // namespace haloconv::sm90
