#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "chip/chip_of_device.h"
#include "conv2d/families/channels_last/instances.h"
#include "conv2d/families/channels_last/maps.h"
#include "conv2d/families/channels_last/plan.h"
#include "conv2d/families/channels_last/repeat_channels.h"
#include "conv2d/families/channels_last/strips_instances.h"
#include "conv2d/family.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::channels_last {

namespace {

// Calls body.template operator()<tile>() with the tile of a list as a constant.
template <const auto& kList, class AnyTile, class Body, size_t... kIndex>
void with_tile(const AnyTile& tile, Body body, std::index_sequence<kIndex...>) {
  const bool found =
      ((tile == kList[kIndex] && (body.template operator()<kList[kIndex]>(), true)) || ...);
  if (!found) throw std::logic_error("haloconv: no channels_last kernel has this tile");
}

template <const auto& kList, class AnyTile, class Body>
void with_tile(const AnyTile& tile, Body body) {
  with_tile<kList>(tile, body, std::make_index_sequence<std::size(kList)>{});
}

// Results are written by 16 bytes, and so is the residual read.
void check_alignment(const void* address, const char* of) {
  if (reinterpret_cast<uintptr_t>(address) % 16 == 0) return;
  throw std::runtime_error(std::string("haloconv: the address of the ") + of +
                           " was expected to be a multiple of 16 bytes");
}

Epilogue epilogue_of(const Plan& plan, const Results& results) {
  if (results.bias == nullptr && results.fusion.is_none()) return Epilogue::kNone;
  const bool in_boxes =
      results.fusion.residual != nullptr && results.quick.is_quick && plan.copies_residual();
  return in_boxes ? Epilogue::kInBoxes : Epilogue::kFused;
}

}  // namespace

void launch(const Conv2dProblem& problem, const Plan& plan, const void* source, const void* filter,
            const Results& results, void* workspace, int multiprocessors, cudaStream_t stream) {
  check_alignment(results.to, "result");
  check_alignment(results.fusion.residual, "residual");
  if (plan.direction == Direction::kDgrad && problem.type == DataType::kFloat32 &&
      !plan.is_turned()) {
    launch_transpose_filter(problem, static_cast<const float*>(filter),
                            static_cast<float*>(workspace), stream);
    filter = workspace;
  }
  const Instance instance{.type = problem.type,
                          .dgrad = plan.direction == Direction::kDgrad,
                          .epilogue = epilogue_of(plan, results)};
  const bool in_boxes = instance.epilogue == Epilogue::kInBoxes;
  const auto with_results = [&](auto launch) {
    launch.args.results.to = results.to;
    launch.args.results.bias = results.bias;
    launch.args.results.fusion = results.fusion;
    launch.args.results.quick = results.quick;
    return launch;
  };
  if (const auto* windows = std::get_if<WindowLaunch>(&plan.launch)) {
    WindowLaunch launch = with_results(*windows);
    launch.args.filter = filter;
    WindowMaps maps = make_maps(problem, plan, launch, source, filter);
    if (in_boxes) add_result_maps(problem, plan, launch, maps);
    Tile tile = plan.tile;
    tile.alternates = tile.alternates && instance.epilogue == Epilogue::kNone;
    return with_tile<kWindowTiles>(tile, [&]<Tile kTile>() {
      if constexpr (kTile.alternates) {
        launch_alternating_windows<kTile>(instance, launch, maps, multiprocessors, stream);
      } else {
        launch_windows<kTile>(instance, launch, maps, multiprocessors, stream);
      }
    });
  }
  if (const auto* strips = std::get_if<StripLaunch>(&plan.launch)) {
    const StripLaunch launch = with_results(*strips);
    const WindowMaps maps = make_maps(problem, plan, launch, source, filter);
    const StripTile strip{launch.sum_rows, plan.tile};
    return with_tile<kStripTiles>(
        strip, [&]<StripTile kStrip>() { launch_strips<kStrip>(instance, launch, maps, stream); });
  }
  if (const auto* splits = std::get_if<Kept<SplitLaunch>>(&plan.launch)) {
    SplitArguments args = with_results((*splits)->args);
    args.partial = static_cast<float*>(workspace);
    const TensorMaps maps = make_maps(problem, plan, (*splits)->launch, source, filter);
    with_tile<kSplitTiles>(plan.tile, [&]<Tile kTile>() {
      launch_splits<kTile>(args, maps, problem.type, multiprocessors, stream);
    });
    return launch_add_splits(args, problem.type, stream);
  }
  if (const auto* rows = std::get_if<Kept<RowLaunch>>(&plan.launch)) {
    RowArguments args = (*rows)->args;
    args.shares.args.results.to = results.to;
    args.shares.partial = static_cast<float*>(workspace);
    const TensorMaps maps = make_maps(problem, plan, (*rows)->launch, source, filter);
    with_tile<kRowTiles>(
        plan.tile, [&]<Tile kTile>() { launch_rows<kTile>(args, maps, multiprocessors, stream); });
    if (args.shares.splits > 1) launch_add_row_splits(args, stream);
    return;
  }
  if (const auto* turned = std::get_if<TurnedLaunch>(&plan.launch)) {
    for (const Launch& each : turned->launches) {
      const Launch launch = with_results(each);
      const TensorMaps maps = make_maps(problem, plan, launch, source, filter);
      with_tile<kTurnedTiles>(plan.tile, [&]<Tile kTile>() {
        launch_turned<kTile>(instance.dgrad, launch.args, maps, multiprocessors, stream);
      });
    }
    return;
  }
  if (const auto* staying = std::get_if<Kept<StayingLaunch>>(&plan.launch)) {
    StayingLaunch of = **staying;
    of.launch = with_results(of.launch);
    TensorMaps maps = make_maps(problem, plan, of.launch, source, filter);
    if (of.launch.copies_results) add_result_map(problem, plan, of.launch, maps);
    return with_tile<kStayingTiles>(
        plan.tile, [&]<Tile kTile>() { launch_staying<kTile>(instance, of, maps, stream); });
  }
  for (const Launch& each : std::get<std::vector<Launch>>(plan.launch)) {
    Launch launch = with_results(each);
    Tile tile = plan.tile;
    if (tile.alternates && instance.epilogue != Epilogue::kNone) {
      tile.alternates = false;
      const int64_t room = stage_room(tile, launch.args.tiles, multiprocessors);
      launch.args.stages =
          static_cast<int32_t>(std::min<int64_t>(kMaxStages, room / stage_bytes(tile)));
    }
    TensorMaps maps = make_maps(problem, plan, launch, source, filter);
    if (in_boxes) add_result_maps(problem, plan, launch, maps);
    if (tile.alternates && launch.copies_results) add_result_map(problem, plan, launch, maps);
    with_tile<kTiles>(tile, [&]<Tile kTile>() {
      if constexpr (kTile.alternates) {
        launch_alternating<kTile>(instance, launch.args, maps, launch.copies_results,
                                  multiprocessors, stream);
      } else {
        launch_tile<kTile>(instance, launch.args, maps, multiprocessors, stream);
      }
    });
  }
}

}  // namespace haloconv::sm90::channels_last

namespace haloconv::channels_last {

namespace {

// What the operands have for each channel of the result, for those of the folded problem.
void repeat_channels(const PlanOf<sm90::channels_last::Plan>& made, Operands& operands,
                     cudaStream_t stream) {
  const sm90::channels_last::Plan& plan = made.details;
  const int64_t element_bytes = size_of(made.problem.type);
  auto* to = static_cast<char*>(operands.workspace) + plan.repeated_at;
  for (const void** values : {&operands.bias, &operands.fusion.scale, &operands.fusion.shift}) {
    if (*values == nullptr) continue;
    sm90::channels_last::launch_repeat_channels(
        *values, to, static_cast<int32_t>(made.problem.c / plan.columns),
        static_cast<int32_t>(plan.columns), element_bytes, stream);
    *values = to;
    to += round_up(made.problem.c * element_bytes, 16);
  }
}

}  // namespace

void launch(const Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<sm90::channels_last::Plan>(plan);
  const bool fprop = made.details.direction == Direction::kFprop;
  Operands of_fold = operands;
  if (made.details.columns > 1) repeat_channels(made, of_fold, stream);
  sm90::channels_last::launch(made.problem, made.details, fprop ? operands.input : operands.output,
                              operands.filter,
                              {.to = operands.result,
                               .bias = of_fold.bias,
                               .fusion = of_fold.fusion,
                               .channels = 0,
                               .quick = {made.problem.type, of_fold.bias, of_fold.fusion}},
                              operands.workspace, chip_of_current_device().multiprocessors, stream);
}

}  // namespace haloconv::channels_last
