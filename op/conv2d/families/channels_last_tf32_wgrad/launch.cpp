#include <stdexcept>

#include "conv2d/families/channels_last_tf32_wgrad/instances.h"
#include "conv2d/families/channels_last_tf32_wgrad/plan.h"
#include "conv2d/family.h"
#include "cuda/tma.h"

namespace haloconv::sm90::channels_last_tf32_wgrad {

namespace {

// One dimension of a tensor's pixels, and of a box.
struct PixelAxis {
  int64_t extent, distance;
  int32_t box, step = 1;
};

CUtensorMap make_map(const void* address, int64_t channels, const PixelAxis& w, const PixelAxis& h,
                     const PixelAxis& n, bool images_innermost) {
  TensorView view;
  view.address = address;
  view.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  view.element_bytes = 4;
  view.rank = 4;
  const PixelAxis axes[] = {{channels, 1, 32},
                            images_innermost ? n : w,
                            images_innermost ? w : h,
                            images_innermost ? h : n};
  int32_t box[4], steps[4];
  for (int i = 0; i < 4; ++i) {
    view.extents[i] = axes[i].extent, view.strides[i] = axes[i].distance;
    box[i] = axes[i].box, steps[i] = axes[i].step;
  }
  const auto map = make_tiled_map(view, box, CU_TENSOR_MAP_SWIZZLE_128B, steps);
  if (!map) {
    throw std::runtime_error(
        "haloconv: the driver makes no tensor map of the input or of grad_output; their addresses "
        "must be multiples of 16 bytes");
  }
  return *map;
}

Maps make_maps(const Conv2dProblem& p, const Plan& plan, const void* grad_output,
               const void* input) {
  const Arguments& args = plan.args;
  if (plan.flat) {
    const int64_t pixels = p.n * p.h * p.w;
    const auto row = [&](const Strides& of) {
      return PixelAxis{pixels, even_distance(of, p.n, p.h, p.w), args.columns};
    };
    const PixelAxis one = {1, 0, 1};
    return {make_map(grad_output, p.k, row(p.output), one, one, false),
            make_map(input, p.c, row(p.input), one, one, false)};
  }
  return {
      make_map(grad_output, p.k, {p.q(), p.output.w, args.columns}, {p.p(), p.output.h, args.rows},
               {p.n, p.output.n, args.images}, args.images_innermost),
      make_map(input, p.c, {p.w, p.input.w, args.box_w, args.stride_w},
               {p.h, p.input.h, plan.box_h, args.stride_h}, {p.n, p.input.n, args.images},
               args.images_innermost)};
}

}  // namespace

void launch(const Conv2dProblem& problem, const Plan& plan, const Operands& operands,
            cudaStream_t stream) {
  const Maps maps = make_maps(problem, plan, operands.output, operands.input);
  Arguments args = plan.args;
  args.grad_output = operands.output;
  args.input = operands.input;
  args.grad_filter = operands.result;
  args.grad_bias = operands.grad_bias;
  args.partial = static_cast<float*>(operands.workspace);
  args.bias_partial = args.partial + int64_t{args.splits} * args.tiles * plan.tile.values();
  launch_kernel(plan.tile, maps, args, plan.shared_bytes, stream);
  launch_add_splits(plan.tile, args, stream);
}

}  // namespace haloconv::sm90::channels_last_tf32_wgrad

namespace haloconv::channels_last_tf32_wgrad {

void launch(const Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<sm90::channels_last_tf32_wgrad::Plan>(plan);
  sm90::channels_last_tf32_wgrad::launch(made.problem, made.details, operands, stream);
}

}  // namespace haloconv::channels_last_tf32_wgrad
