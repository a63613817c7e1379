#include <cstdint>
#include <stdexcept>
#include <string>

#include "conv2d/families/implicit_gemm/descents/descents.h"
#include "conv2d/families/implicit_gemm/instances.h"
#include "conv2d/families/implicit_gemm/pack_filter.h"
#include "conv2d/families/implicit_gemm/plan.h"
#include "conv2d/families/implicit_gemm/strips/strips.h"
#include "conv2d/families/implicit_gemm/team_descents/instance.h"
#include "conv2d/family.h"
#include "conv2d/with_tile.h"

namespace haloconv::implicit_gemm {

namespace {

// One launch, by the plan's tile.
void launch_one(const Plan& plan, DataType type, const Arguments& args, cudaStream_t stream) {
  with_tile(kTiles, plan.tile, "implicit_gemm", [&]<size_t kIndex>() {
    if (args.windows.count == 0) {
      if constexpr (takes_gathers(kTiles[kIndex])) {
        return launch_tile<kIndex>(type, plan.access, args, stream);
      }
    } else if constexpr (takes_windows(kTiles[kIndex])) {
      return launch_windows<kIndex>(type, plan.access, args, stream);
    }
    throw std::logic_error("haloconv: this tile has no such implicit_gemm kernel");
  });
}

// Units of results are written as a whole, and so are those of the residual read.
void check_alignment(const void* address, const char* of) {
  if (reinterpret_cast<uintptr_t>(address) % kUnitBytes == 0) return;
  throw std::runtime_error(std::string("haloconv: the address of the ") + of +
                           " was expected to be a multiple of 16 bytes");
}

// The arguments of a launch with what only the call knows.
Arguments with_operands(Arguments args, const Plan& plan, const Conv2dProblem& problem,
                        const Operands& operands) {
  const auto element_bytes = static_cast<int32_t>(size_of(problem.type));
  const auto behind = [&](const void* address, int64_t elements) {
    return static_cast<const char*>(address) + elements * element_bytes;
  };
  args.source = behind(plan.direction == Direction::kFprop ? operands.input : operands.output,
                       args.source_offset);
  args.filter = plan.packs ? operands.workspace : operands.filter;
  args.bias = operands.bias;
  args.destination = static_cast<char*>(operands.result) + args.destination_offset * element_bytes;
  args.fusion = operands.fusion;
  if (args.fusion.residual != nullptr) {
    args.fusion.residual = behind(args.fusion.residual, args.destination_offset);
  }
  args.quick = sm90::QuickFusion(problem.type, operands.bias, operands.fusion);
  args.has_words =
      has_words(args.geometry, element_bytes, reinterpret_cast<uintptr_t>(args.destination));
  if (args.staging.bytes == 0) return args;
  const int32_t granule =
      granule_of(args.geometry.source, element_bytes, reinterpret_cast<uintptr_t>(args.source));
  args.shifts_rows = args.shifts_rows && granule >= kWordBytes;
  args.staging = args.strips.rows > 0 ? make_strip_staging(args.windows, element_bytes, granule)
                                      : make_staging(args.windows, element_bytes, granule,
                                                     plan.tile.threads(), args.shifts_rows);
  return args;
}

}  // namespace

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  const Plan& details = made.details;
  const DataType type = made.problem.type;
  if (details.access == Access::kUnits) {
    check_alignment(operands.result, "result");
    check_alignment(operands.fusion.residual, "residual");
  }
  const auto pack = [&](const Arguments& args) {
    if (!details.packs) return;
    pack_filter(type, details.tile, args, operands.filter, operands.workspace, stream);
  };
  if (details.strips) {
    Arguments args = with_operands(*details.strips, details, made.problem, operands);
    if (details.is_of_team) {
      if (descents_take(args)) {
        args.filter = operands.filter;
        return launch_team_descents(type, args, stream);
      }
    } else if (details.has_descents()) {
      if (descents_take(args)) {
        pack(args);
        return launch_descents(type, args, stream);
      }
    } else if (strips_take(args)) {
      pack(args);
      return launch_strips(type, args, stream);
    }
  }
  for (const Arguments& of : details.launches) {
    const Arguments args = with_operands(of, details, made.problem, operands);
    if (!details.interleaves || &of == &details.launches.front()) pack(args);
    launch_one(details, type, args, stream);
  }
}

}  // namespace haloconv::implicit_gemm
