#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>

#include "conv2d/families/channels_last_wgrad/add_partials.h"
#include "conv2d/families/channels_last_wgrad/instances.h"
#include "conv2d/families/channels_last_wgrad/plan.h"
#include "conv2d/families/channels_last_wgrad/shared_bytes.h"
#include "conv2d/family.h"
#include "cuda/tma.h"

namespace haloconv::sm90::channels_last_wgrad {

namespace {

int32_t to_int32(int64_t value) { return static_cast<int32_t>(value); }

// One dimension of a tensor's pixels, and of a box.
struct PixelAxis {
  int64_t extent, distance;
  int32_t box, step = 1;
};

// Of boxes of `width` channels.
CUtensorMap make_map(const void* address, DataType type, int64_t channels, int32_t width,
                     const PixelAxis& w, const PixelAxis& h, const PixelAxis& n,
                     bool images_innermost) {
  TensorView view;
  view.address = address;
  view.type = type == DataType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                         : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  view.element_bytes = 2;
  view.rank = 4;
  const PixelAxis axes[] = {{channels, 1, width},
                            images_innermost ? n : w,
                            images_innermost ? w : h,
                            images_innermost ? h : n};
  int32_t box[4], steps[4];
  for (int i = 0; i < 4; ++i) {
    view.extents[i] = axes[i].extent;
    view.strides[i] = axes[i].distance;
    box[i] = axes[i].box;
    steps[i] = axes[i].step;
  }
  const CUtensorMapSwizzle swizzle = width == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : width == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                   : CU_TENSOR_MAP_SWIZZLE_32B;
  const auto map = make_tiled_map(view, box, swizzle, steps);
  if (!map) {
    throw std::runtime_error(
        "haloconv: the driver makes no tensor map of the input or of grad_output; their addresses "
        "must be multiples of 16 bytes");
  }
  return *map;
}

// The strides of a tensor's pixels as a plan sees them.
Strides strides_of(const Strides& strides, const Conv2dProblem& problem, const Layout& layout) {
  if (!layout.flat) return strides;
  return {.w = even_distance(strides, problem.n, problem.h, problem.w).value()};
}

Maps make_maps(const Conv2dProblem& problem, const Layout& layout, const void* grad_output,
               const void* input) {
  const Patch& patch = layout.patch;
  const Pixels pixels(problem, layout.flat);
  const int64_t w = layout.flat ? pixels.q : problem.w, h = layout.flat ? 1 : problem.h;
  const Strides of_output = strides_of(problem.output, problem, layout);
  const Strides of_input = strides_of(problem.input, problem, layout);
  return {make_map(grad_output, problem.type, problem.k, 64, {pixels.q, of_output.w, patch.columns},
                   {pixels.p, of_output.h, patch.rows}, {pixels.n, of_output.n, patch.images},
                   patch.images_innermost),
          make_map(input, problem.type, problem.c, layout.tile.width,
                   {w, of_input.w, layout.box_w, to_int32(problem.stride_w)},
                   {h, of_input.h, layout.box_h, to_int32(problem.stride_h)},
                   {pixels.n, of_input.n, patch.images}, patch.images_innermost)};
}

Arguments make_arguments(const Conv2dProblem& problem, const Plan& plan) {
  const Layout& layout = plan.layout;
  Arguments args{};
  set_problem(args, problem);
  args.columns = layout.patch.columns, args.rows = layout.patch.rows,
  args.images = layout.patch.images;
  args.images_innermost = layout.patch.images_innermost;
  args.strips = FastDiv(layout.strips), args.bands = FastDiv(layout.bands);
  args.patches = to_int32(layout.patches);
  args.tiles_of_k = FastDiv(layout.tiles_of_k), args.tiles_of_c = FastDiv(layout.tiles_of_c);
  args.tiles_of_s = FastDiv(layout.tiles_of_s);
  args.tiles = to_int32(layout.tiles());
  args.tile_c = layout.tile_c, args.tile_s = layout.tile_s, args.tile_r = layout.tile_r;
  args.axes = layout.axes;
  args.cluster_tiles = plan.cluster_tiles, args.cluster_splits = plan.cluster_splits;
  args.outer_splits = plan.outer_splits;
  args.stages = plan.stages, args.k_steps = layout.patch.k_steps();
  args.grad_output_bytes = layout.grad_output_bytes;
  args.input_bytes = layout.input_bytes, args.input_boxes = layout.input_boxes;
  args.copied_bytes = layout.copied_bytes;
  args.group_bytes = layout.group_bytes;
  args.reaches_beyond = layout.reaches_beyond;
  return args;
}

}  // namespace

void launch(const Conv2dProblem& problem, const Plan& plan, const void* grad_output,
            const void* input, void* grad_filter, void* grad_bias, void* workspace,
            cudaStream_t stream) {
  const Layout& layout = plan.layout;
  const Maps maps = make_maps(problem, layout, grad_output, input);
  Arguments args = make_arguments(problem, plan);
  args.grad_output = grad_output;
  args.input = input;
  args.grad_filter = grad_filter;
  args.grad_bias = plan.with_bias ? grad_bias : nullptr;
  args.partial = static_cast<float*>(workspace);
  args.bias_partial = args.partial + plan.outer_splits * layout.tiles() * layout.tile.values();
  const int64_t shared = plan.stages * layout.stage_bytes() + kSharedBesideRing;
  const auto run = [&]<class T>(T) {
    launch_instance<T>(layout.tile, maps, args, shared, stream);
    if (plan.outer_splits > 1) launch_add_partials<T>(args, layout.tile, stream);
  };
  if (problem.type == DataType::kFloat16) {
    run(__half{});
  } else {
    run(__nv_bfloat16{});
  }
}

}  // namespace haloconv::sm90::channels_last_wgrad

namespace haloconv::channels_last_wgrad {

void launch(const Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<sm90::channels_last_wgrad::Plan>(plan);
  sm90::channels_last_wgrad::launch(made.problem, made.details, operands.output, operands.input,
                                    operands.result, operands.grad_bias, operands.workspace,
                                    stream);
}

}  // namespace haloconv::channels_last_wgrad
