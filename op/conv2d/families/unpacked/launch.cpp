#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>

#include "chip/chip_of_device.h"
#include "conv2d/families/unpacked/instances.h"
#include "conv2d/families/unpacked/plan.h"
#include "conv2d/family.h"
#include "conv2d/geometry/integers.h"
#include "cuda/tma.h"

namespace haloconv::unpacked {

namespace {

CUtensorMap made(const std::optional<CUtensorMap>& map) {
  if (map) return *map;
  throw std::runtime_error(
      "haloconv: no tensor map describes a tensor: its address was expected to be a multiple of 16 "
      "bytes");
}

// Of float32 the copy engine rounds to TF32.
TensorView view_of(const void* address, int rank) {
  return {.address = address,
          .type = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
          .element_bytes = 4,
          .rank = rank};
}

CUtensorMap input_map(const Conv2dProblem& p, const Box& box, const void* input) {
  TensorView view = view_of(input, 4);
  const int64_t extents[] = {p.w, p.h, p.c, p.n};
  const int64_t steps[] = {1, p.input.h, p.input.c, p.input.n};
  std::copy_n(extents, 4, view.extents);
  std::copy_n(steps, 4, view.strides);
  const int32_t sizes[] = {box.columns, box.rows, box.channels, box.images};
  return made(make_tiled_map(view, sizes, CU_TENSOR_MAP_SWIZZLE_NONE));
}

CUtensorMap filter_map(const Conv2dProblem& p, const Tile& tile, const void* filter) {
  TensorView view = view_of(filter, 2);
  view.extents[0] = p.c * p.r * p.s;
  view.extents[1] = p.k;
  view.strides[1] = p.filter.n;
  const int32_t sizes[] = {kStageDepth, tile.channels};
  return made(make_tiled_map(view, sizes, CU_TENSOR_MAP_SWIZZLE_128B));
}

template <class Body>
void with_tile(const Tile& tile, Body body) {
  bool found = false;
  const auto try_one = [&]<size_t kIndex>() {
    if (!found && tile == kTiles[kIndex]) {
      found = true;
      body.template operator()<kTiles[kIndex]>();
    }
  };
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    (try_one.template operator()<kIndex>(), ...);
  }(std::make_index_sequence<std::size(kTiles)>());
  if (!found) throw std::logic_error("haloconv: unpacked has no kernel of this tile");
}

}  // namespace

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  const Conv2dProblem& problem = made.problem;
  const Plan& details = made.details;
  Arguments args = details.args;
  auto* const result = static_cast<float*>(operands.result);
  args.to = args.splits == 1 ? result : static_cast<float*>(operands.workspace);
  args.bias = static_cast<const float*>(operands.bias);
  const CUtensorMap source = input_map(problem, details.box, operands.input);
  const CUtensorMap filter = filter_map(problem, details.tile, operands.filter);
  with_tile(details.tile, [&]<Tile kTile>() {
    launch_tile<kTile>(args, source, filter, static_cast<uint32_t>(details.box.bytes()),
                       chip_of_current_device().multiprocessors, stream);
  });
  if (args.splits == 1) return;
  const int64_t plane = problem.p() * problem.q() / 4;
  launch_add_splits({.partial = args.to,
                     .to = result,
                     .bias = args.bias,
                     .splits = args.splits,
                     .plane = FastDiv(plane),
                     .channels = FastDiv(problem.k),
                     .quads = problem.n * problem.k * plane,
                     .image_step = problem.output.n,
                     .channel_step = problem.output.c},
                    stream);
}

}  // namespace haloconv::unpacked
