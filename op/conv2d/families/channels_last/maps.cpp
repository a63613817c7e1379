#include "conv2d/families/channels_last/maps.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "conv2d/families/channels_last/operands.h"
#include "conv2d/families/channels_last/result_boxes.h"
#include "conv2d/families/channels_last/turned_rows.h"
#include "cuda/tma.h"

namespace haloconv::sm90::channels_last {

namespace {

CUtensorMapSwizzle swizzle_of(int row_bytes) {
  return row_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                           : CU_TENSOR_MAP_SWIZZLE_32B;
}

CUtensorMap made(const std::optional<CUtensorMap>& map, const char* of) {
  if (map) return *map;
  throw std::runtime_error(std::string("haloconv: no tensor map describes the ") + of +
                           ": its address was expected to be a multiple of 16 bytes");
}

TensorView view_of(const Conv2dProblem& problem, const void* address) {
  TensorView view{
      .address = address, .element_bytes = static_cast<int>(size_of(problem.type)), .rank = 4};
  // Of float32 the copy engine rounds to TF32.
  view.type = problem.type == DataType::kFloat32   ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
              : problem.type == DataType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                   : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  return view;
}

// The input or the output, as (channels, columns, rows, images).
TensorView images_view(const Conv2dProblem& p, bool is_output, const void* address) {
  TensorView view = view_of(p, address);
  const Strides& strides = is_output ? p.output : p.input;
  const int64_t extents[] = {is_output ? p.k : p.c, is_output ? p.q() : p.w,
                             is_output ? p.p() : p.h, p.n};
  const int64_t steps[] = {1, strides.w, strides.h, strides.n};
  std::copy_n(extents, 4, view.extents);
  std::copy_n(steps, 4, view.strides);
  return view;
}

// Of (input channels, columns, rows, output channels), or of dgrad's transposed filter, where both
// channels change places.
CUtensorMap filter_map(const Conv2dProblem& p, const Plan& plan, const void* address) {
  const int32_t source_channels = plan.tile.depth;
  const bool dgrad = plan.direction == Direction::kDgrad;
  TensorView view = view_of(p, address);
  if (dgrad && p.type == DataType::kFloat32 && !plan.is_turned()) {
    const int64_t extents[] = {p.k, p.s, p.r, p.group_c()};
    const int64_t steps[] = {1, p.k, p.s * p.k, p.r * p.s * p.k};
    std::copy_n(extents, 4, view.extents);
    std::copy_n(steps, 4, view.strides);
    const int32_t box[] = {source_channels, 1, 1, plan.tile.channels};
    return made(make_tiled_map(view, box, swizzle_of(plan.tile.row_bytes())), "filter");
  }
  const int64_t extents[] = {p.group_c(), p.s, p.r, p.k};
  const int64_t steps[] = {1, p.filter.w, p.filter.h, p.filter.n};
  std::copy_n(extents, 4, view.extents);
  std::copy_n(steps, 4, view.strides);
  const int32_t of_fprop[] = {source_channels, 1, 1, plan.tile.channels};
  if (plan.is_turned()) {
    // turned_rows.h: of forward passes rows of a box are every second or fourth channel.
    const int32_t box[] = {plan.tile.depth, 1, 1, kTurnedBoxRows};
    const int32_t apart[] = {1, 1, 1, dgrad ? 1 : TurnedPart(plan.tile).thread_channels()};
    return made(make_tiled_map(view, box, CU_TENSOR_MAP_SWIZZLE_128B, apart), "filter");
  }
  const int32_t of_dgrad[] = {filter_row_channels(plan.tile), 1, 1, source_channels};
  return made(
      make_tiled_map(view, dgrad ? of_dgrad : of_fprop,
                     swizzle_of(dgrad ? dgrad_row_bytes(plan.tile) : plan.tile.row_bytes())),
      "filter");
}

// Of images whose pixels lie one after the other.
TensorView in_one_row(TensorView view) {
  view.extents[1] *= view.extents[2] * view.extents[3];
  view.extents[2] = view.extents[3] = 1;
  return view;
}

TensorView result_view(const Conv2dProblem& problem, const Plan& plan, const void* address) {
  return images_view(problem, plan.direction == Direction::kFprop, address);
}

// Of boxes of a residual or results, which have rows of 128 bytes in shared memory.
CUtensorMap box_map(const TensorView& view, const int32_t* box, const char* of) {
  return made(make_tiled_map(view, box, CU_TENSOR_MAP_SWIZZLE_128B), of);
}

const char* source_name(bool dgrad) { return dgrad ? "output's gradient" : "input"; }

WindowMaps boxed_maps(const Conv2dProblem& problem, const Plan& plan, const TensorView& source,
                      const int32_t* box, const void* filter) {
  WindowMaps maps{};
  maps.source = made(make_tiled_map(source, box, swizzle_of(plan.tile.row_bytes())),
                     source_name(plan.direction == Direction::kDgrad));
  maps.filter = filter_map(problem, plan, filter);
  return maps;
}

}  // namespace

TensorMaps make_maps(const Conv2dProblem& problem, const Plan& plan, const Launch& launch,
                     const void* source, const void* filter) {
  const bool dgrad = plan.direction == Direction::kDgrad;
  const TensorView view = images_view(problem, dgrad, source);
  TensorMaps maps{};
  for (int32_t i = 0; i < launch.args.phases; ++i) {
    if (launch.args.phase[i].taps_h * launch.args.phase[i].taps_w == 0) continue;
    maps.source[i] =
        made(make_im2col_map(view, launch.columns[i], swizzle_of(plan.tile.row_bytes())),
             source_name(dgrad));
  }
  maps.filter = filter_map(problem, plan, filter);
  return maps;
}

WindowMaps make_maps(const Conv2dProblem& problem, const Plan& plan, const WindowLaunch& launch,
                     const void* source, const void* filter) {
  const bool dgrad = plan.direction == Direction::kDgrad;
  const TensorView view = images_view(problem, dgrad, source);
  return boxed_maps(problem, plan, launch.flat ? in_one_row(view) : view, launch.box, filter);
}

WindowMaps make_maps(const Conv2dProblem& problem, const Plan& plan, const StripLaunch& launch,
                     const void* source, const void* filter) {
  const bool dgrad = plan.direction == Direction::kDgrad;
  return boxed_maps(problem, plan, images_view(problem, dgrad, source), launch.box, filter);
}

void add_result_maps(const Conv2dProblem& problem, const Plan& plan, const Launch& launch,
                     TensorMaps& maps) {
  const int32_t box[] = {kBoxChannels, plan.tile.pixels, 1, 1};
  const int32_t warps_box[] = {kBoxChannels, kWarpPixels, 1, 1};
  const auto map = [&](const void* address, const int32_t* of_box, const char* of) {
    return box_map(in_one_row(result_view(problem, plan, address)), of_box, of);
  };
  maps.residual = map(launch.args.results.fusion.residual, box, "residual");
  maps.result = map(launch.args.results.to, warps_box, "result");
}

void add_result_map(const Conv2dProblem& problem, const Plan& plan, const Launch& launch,
                    TensorMaps& maps) {
  const int32_t box[] = {kBoxChannels, 64, 1, 1};
  maps.result =
      box_map(in_one_row(result_view(problem, plan, launch.args.results.to)), box, "result");
}

void add_result_maps(const Conv2dProblem& problem, const Plan& plan, const WindowLaunch& launch,
                     WindowMaps& maps) {
  const WindowArguments& args = launch.args;
  const int32_t columns = launch.flat ? plan.tile.pixels : args.block_columns;
  const int32_t warps_columns = launch.flat ? kWarpPixels : args.block_columns;
  const int32_t box[] = {kBoxChannels, columns, args.block_rows, 1};
  const int32_t warps_box[] = {kBoxChannels, warps_columns, 1, 1};
  const auto map = [&](const void* address, const int32_t* of_box, const char* of) {
    const TensorView view = result_view(problem, plan, address);
    return box_map(launch.flat ? in_one_row(view) : view, of_box, of);
  };
  maps.residual = map(args.results.fusion.residual, box, "residual");
  maps.result = map(args.results.to, warps_box, "result");
}

}  // namespace haloconv::sm90::channels_last
