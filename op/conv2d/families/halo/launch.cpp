#include <algorithm>
#include <stdexcept>
#include <type_traits>

#include "chip/chip_of_device.h"
#include "conv2d/device/precise_float.h"
#include "conv2d/device/with_element.h"
#include "conv2d/families/halo/copied_launch.h"
#include "conv2d/families/halo/fill_zeros.h"
#include "conv2d/families/halo/instances.h"
#include "conv2d/families/halo/lowered.h"
#include "conv2d/families/halo/pack_filter.h"
#include "conv2d/families/halo/repair.h"
#include "conv2d/family.h"
#include "conv2d/geometry/hopper_rows.h"

namespace haloconv::halo {

namespace {

template <class T>
void launch(const Tile& tile, const Arguments& args, unsigned blocks, cudaStream_t stream) {
  const auto launch_one = [&]<int kInstructions, int kWidth>() {
    if constexpr (std::is_same_v<T, float>) {
      if (!args.fusion.is_none()) {
        return launch_fused_instance<kInstructions, kWidth>(args, blocks, stream);
      }
    }
    launch_instance<T, kInstructions, kWidth>(args, blocks, stream);
  };
  const int instance = tile.instructions * 1000 + tile.width;
  switch (instance) {
    case 2064:
      return launch_one.template operator()<2, 64>();
    case 2056:
      return launch_one.template operator()<2, 56>();
  }
  if constexpr (!std::is_same_v<T, PreciseFloat>) {
    if (tile.copied) return launch_copied<T>(tile, args, blocks, stream);
    switch (instance) {
      case 4064:
        return launch_one.template operator()<4, 64>();
      case 4056:
        return launch_one.template operator()<4, 56>();
      case 2104:
        return launch_one.template operator()<2, 104>();
    }
  }
  throw std::logic_error("haloconv: no halo kernel has this tile");
}

// How many neighbouring pixels of the output may be written at once.
int32_t vector_of(const Arguments& args) {
  const auto fits = [&](int64_t n) {
    return args.destination_w == 1 && args.destination_n % n == 0 && args.destination_c % n == 0 &&
           args.folded.step % n == 0 && args.w.outputs % n == 0 &&
           reinterpret_cast<uintptr_t>(args.destination) % (n * args.element_bytes()) == 0 &&
           reinterpret_cast<uintptr_t>(args.fusion.residual) % (n * args.element_bytes()) == 0;
  };
  for (int32_t n = static_cast<int32_t>(16 / args.element_bytes()); n > 1; n /= 2) {
    if (fits(n)) return n;
  }
  return 1;
}

template <class T>
void launch_lowered(const Plan& plan, const Lowered& lowered, const T* source, const T* filter,
                    const T* bias, const Fusion& fusion, T* destination, void* workspace,
                    cudaStream_t stream) {
  auto* const counters =
      reinterpret_cast<uint32_t*>(static_cast<char*>(workspace) + lowered.counters_at);
  for (PackArguments pack : lowered.packs) {
    pack.filter = filter;
    pack.packed = workspace;
    pack.counters = counters;
    launch_pack_filter<T>(pack, stream);
  }
  if (lowered.zeros) {
    ZeroArguments zeros = *lowered.zeros;
    zeros.destination = destination;
    zeros.bias = bias;
    zeros.fusion = fusion;
    launch_fill_zeros<T>(zeros, stream);
  }
  const int blocks = chip_of_current_device().multiprocessors;
  for (size_t i = 0; i < lowered.launches.size(); ++i) {
    const Launch& made = lowered.launches[i];
    Arguments args = made.arguments;
    args.source = source;
    args.packed = static_cast<const char*>(workspace) + made.packed_at;
    args.bias = bias;
    args.destination = destination + made.destination_at;
    args.fusion = fusion;
    if (!fusion.is_none()) args.chunks_ahead = plan.fused_chunks_ahead;
    if (fusion.residual != nullptr) {
      args.fusion.residual = static_cast<const T*>(fusion.residual) + made.destination_at;
    }
    const bool aligned = reinterpret_cast<uintptr_t>(source) % (2 * sizeof(T)) == 0;
    args.source_vector = args.even && aligned ? 2 : 1;
    args.vector = vector_of(args);
    args.tile_counter = counters + i * kCountersOfLaunch;
    args.has_marks = args.tile_counter + 1;
    args.marks = counters + counter_bytes(lowered.launches.size()) / 4;
    args.clusters = std::min<uint32_t>(args.tiles, blocks / args.splits);
    launch<T>(plan.tile, args, args.clusters * args.splits, stream);
    if (args.folded.count > 1) launch_repair<T>(args, blocks, stream);
  }
}

template <class T>
void launch_typed(const Conv2dProblem& whole, const Plan& plan, const T* source, const T* filter,
                  const T* bias, const Fusion& fusion, T* destination, void* workspace,
                  cudaStream_t stream) {
  if (!fusion.is_none() && !takes_fusion(plan)) {
    throw std::logic_error("haloconv: a fusion was given to a plan whose kernel takes none");
  }
  const Conv2dProblem problem = flattened(whole);
  const auto launch_by = [&](const Plan& by) {
    const auto launch_as = [&](const Lowered& lowered) {
      launch_lowered(by, lowered, source, filter, bias, fusion, destination, workspace, stream);
    };
    if (by.lowered) return launch_as(by.lowered->get([&] { return lower(problem, by); }));
    launch_as(lower(problem, by));
  };
  if (plan.tile.copied && (!fusion.is_none() || !copies_to(plan.tile, destination))) {
    Plan written = plan;  // the same packed filter, and so the same workspace
    written.tile = written_by_warps(plan.tile);
    set_stages(problem, plan.stages, written);
    written.lowered = plan.lowered_without_engine;
    return launch_by(written);
  }
  launch_by(plan);
}

}  // namespace

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  const Plan& details = made.details;
  const bool fprop = details.direction == Direction::kFprop;
  const auto launch_as = [&]<class T>(T) {
    launch_typed<T>(made.problem, details,
                    static_cast<const T*>(fprop ? operands.input : operands.output),
                    static_cast<const T*>(operands.filter), static_cast<const T*>(operands.bias),
                    operands.fusion, static_cast<T*>(operands.result), operands.workspace, stream);
  };
  if (details.precise) return launch_as(PreciseFloat{});
  with_element(made.problem.type, launch_as);
}

}  // namespace haloconv::halo
