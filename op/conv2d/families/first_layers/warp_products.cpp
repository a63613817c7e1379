#include "conv2d/families/first_layers/warp_products_launch.h"

#include <algorithm>

#include "conv2d/families/first_layers/maps.h"
#include "conv2d/families/first_layers/warp_products_instances.h"

namespace haloconv::sm90::first_layers {

namespace {

CUtensorMap tile_map(const Conv2dProblem& problem, const Sweep& sweep, const void* grad_output) {
  TensorView view;
  view.address = grad_output;
  view.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  view.element_bytes = 4;
  view.rank = 4;
  const int64_t extents[] = {problem.k, problem.q(), problem.p(), problem.n};
  const int64_t strides[] = {1, problem.output.w, problem.output.h, problem.output.n};
  std::copy_n(extents, 4, view.extents);
  std::copy_n(strides, 4, view.strides);
  const int32_t box[] = {kWarpChannels, sweep.columns, sweep.tile_rows, 1};
  return map_of_view(view, box, CU_TENSOR_MAP_SWIZZLE_128B, "output's gradient");
}

}  // namespace

void run_warp_products(const Conv2dProblem& problem, const Plan& plan, const Operands& operands,
                       cudaStream_t stream) {
  WarpProductsArguments args = *plan.warp_products;
  args.wgrad.grad_filter = operands.result;
  args.wgrad.grad_bias = operands.grad_bias;
  args.wgrad.partial = static_cast<float*>(operands.workspace);
  const CUtensorMap rows =
      input_rows_map(problem, args.pitch / 2, args.wgrad.sweep.rows_of_tile(), operands.input);
  const CUtensorMap tiles = tile_map(problem, args.wgrad.sweep, operands.output);
  const auto run = args.chunks == 1 ? launch_warp_products<1> : launch_warp_products<2>;
  run(rows, tiles, args, plan.shared_bytes, stream);
  launch_add_warp_runs(args, stream);
}

}  // namespace haloconv::sm90::first_layers
