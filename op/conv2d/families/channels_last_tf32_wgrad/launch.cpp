#include <stdexcept>

#include "conv2d/families/channels_last_tf32_wgrad/instances.h"
#include "conv2d/families/channels_last_tf32_wgrad/plan.h"
#include "conv2d/family.h"
#include "cuda/tma.h"

namespace haloconv::sm90::channels_last_tf32_wgrad {

namespace {

CUtensorMap make_map(const void* address, int64_t channels, int64_t w, int64_t h, int64_t n,
                     const Strides& strides, int32_t columns, int32_t rows, int32_t step_w,
                     int32_t step_h) {
  TensorView view;
  view.address = address;
  view.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  view.element_bytes = 4;
  view.rank = 4;
  const int64_t extents[] = {channels, w, h, n};
  const int64_t distances[] = {1, strides.w, strides.h, strides.n};
  for (int i = 0; i < 4; ++i) view.extents[i] = extents[i], view.strides[i] = distances[i];
  const int32_t box[] = {32, columns, rows, 1}, steps[] = {1, step_w, step_h, 1};
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
    const auto strides = [&](const Strides& of) {
      return Strides{.w = even_distance(of, p.n, p.h, p.w)};
    };
    return {make_map(grad_output, p.k, pixels, 1, 1, strides(p.output), args.columns, 1, 1, 1),
            make_map(input, p.c, pixels, 1, 1, strides(p.input), args.columns, 1, 1, 1)};
  }
  return {make_map(grad_output, p.k, p.q(), p.p(), p.n, p.output, args.columns, args.rows, 1, 1),
          make_map(input, p.c, p.w, p.h, p.n, p.input, args.box_w, plan.box_h, args.stride_w,
                   args.stride_h)};
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
