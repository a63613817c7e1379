#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conv2d/families/channels_last_wgrad/add_partials.h"
#include "conv2d/families/channels_last_wgrad/instances.h"
#include "conv2d/families/channels_last_wgrad/plan.h"
#include "conv2d/families/channels_last_wgrad/shared_bytes.h"
#include "conv2d/family.h"

namespace haloconv::sm90::channels_last_wgrad {

namespace {

int32_t to_int32(int64_t value) { return static_cast<int32_t>(value); }

template <class Args>
Args make_arguments(const Conv2dProblem& problem, const Plan& plan) {
  const Layout& layout = plan.layout;
  Args args{};
  set_problem(args, problem);
  args.columns = layout.patch.columns, args.rows = layout.patch.rows,
  args.images = layout.patch.images;
  args.images_innermost = layout.patch.images_innermost;
  args.strips = FastDiv(layout.strips), args.bands = FastDiv(layout.bands);
  args.patches = to_int32(layout.patches);
  args.tiles_of_k = FastDiv(layout.tiles_of_k), args.tiles_of_c = FastDiv(layout.tiles_of_c);
  args.tiles_of_s = FastDiv(layout.tiles_of_s);
  args.tiles = to_int32(layout.tiles());
  args.kinds_s = FastDiv(layout.steps_s.kinds), args.kinds_r = FastDiv(layout.steps_r.kinds);
  args.tile_c = layout.tile_c;
  args.tile_s = layout.tile_s * layout.steps_s.step;
  args.tile_r = layout.tile_r * layout.steps_r.step;
  args.axes = layout.axes;
  args.cluster_tiles = plan.cluster_tiles, args.cluster_splits = plan.cluster_splits;
  args.outer_splits = plan.outer_splits;
  args.tile_clusters = FastDiv(layout.tiles() / plan.cluster_tiles);
  args.tiles_of_cluster = FastDiv(plan.cluster_tiles);
  args.split_patches = args.patches / plan.splits();
  args.longer_splits = args.patches % plan.splits();
  args.stages = plan.stages, args.k_steps = layout.patch.k_steps();
  args.grad_output_bytes = layout.grad_output_bytes;
  args.input_bytes = layout.input_bytes, args.input_boxes = layout.input_boxes;
  args.copied_bytes = layout.copied_bytes;
  args.group_bytes = layout.group_bytes;
  args.groups = layout.groups;
  args.zero_bytes = layout.zero_bytes;
  args.multiplies_for_bias = layout.multiplies_for_bias();
  args.row_ends = layout.row_ends;
  if constexpr (Args::kOutputRows) {
    args.row_bytes = layout.row_bytes;
    args.output_k = problem.output.c;
  }
  return args;
}

template <class Args>
void launch(const Conv2dProblem& problem, const Plan& plan, const void* grad_output,
            const void* input, void* grad_filter, void* grad_bias, void* workspace,
            cudaStream_t stream) {
  const Layout& layout = plan.layout;
  auto args = make_arguments<Args>(problem, plan);
  const PatchMaps maps =
      make_patch_maps(problem, args, layout.flat, {layout.tile.width, layout.box_w, layout.box_h},
                      grad_output, input);
  args.grad_filter = grad_filter;
  args.grad_bias = plan.with_bias ? grad_bias : nullptr;
  args.partial = static_cast<float*>(workspace);
  args.bias_partial = args.partial + plan.outer_splits * layout.tiles() * layout.tile.values();
  const int64_t shared = plan.shared_bytes();
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

}  // namespace

}  // namespace haloconv::sm90::channels_last_wgrad

namespace haloconv::channels_last_wgrad {

void launch(const Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<sm90::channels_last_wgrad::Plan>(plan);
  namespace wgrad = sm90::channels_last_wgrad;
  const auto run = made.details.layout.output_rows ? wgrad::launch<wgrad::RowsArguments>
                                                   : wgrad::launch<wgrad::Arguments>;
  run(made.problem, made.details, operands.output, operands.input, operands.result,
      operands.grad_bias, operands.workspace, stream);
}

}  // namespace haloconv::channels_last_wgrad
