#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "conv2d/families/first_layers/instances.h"
#include "conv2d/families/first_layers/maps.h"
#include "conv2d/families/first_layers/plain_rows_instances.h"
#include "conv2d/families/first_layers/plan.h"
#include "conv2d/families/first_layers/warp_products_launch.h"
#include "conv2d/family.h"

namespace haloconv::sm90::first_layers {

namespace {

static_assert(kSharedBytes <= kMostSharedBytes);

// Results are written by 16 bytes, and the residual is read so.
void check_alignment(const void* address, const char* of) {
  if (reinterpret_cast<uintptr_t>(address) % 16 == 0) return;
  throw std::runtime_error(std::string("haloconv: the address of the ") + of +
                           " was expected to be a multiple of 16 bytes");
}

void run_fprop(const Conv2dProblem& problem, const Plan& plan, const Operands& operands,
               cudaStream_t stream) {
  check_alignment(operands.result, "result");
  check_alignment(operands.fusion.residual, "residual");
  FpropArguments args = plan.fprop;
  args.sweep.input = operands.input;
  args.filter = operands.filter;
  args.results.to = operands.result;
  args.results.bias = operands.bias;
  args.results.fusion = operands.fusion;
  args.results.quick = {problem.type, operands.bias, operands.fusion};
  const bool fused = operands.bias != nullptr || !operands.fusion.is_none();
  const FpropInstance instance{
      .type = problem.type,
      .fused = fused,
      .shared_bytes = fused ? plan.fused_shared_bytes() : plan.shared_bytes};
  if (plan.plain) {
    PlainRowsArguments of_rows{args, *plan.plain};
    if (fused) of_rows.fprop.sweep.runs = plan.fused_runs;
    const CUtensorMap map = input_rows_map(problem, plan.plain->box, 1, operands.input);
    const auto run = plan.channels == 32   ? launch_plain_rows<32>
                     : plan.channels == 64 ? launch_plain_rows<64>
                     : plan.channels == 96 ? launch_plain_rows<96>
                                           : launch_plain_rows<128>;
    return run(instance, map, of_rows, stream);
  }
  const auto run = plan.rows_innermost
                       ? (plan.channels == 64 ? launch_fprop<64, true> : launch_fprop<128, true>)
                   : plan.channels == 32 ? launch_fprop<32, false>
                   : plan.channels == 64 ? launch_fprop<64, false>
                   : plan.channels == 96 ? launch_fprop<96, false>
                                         : launch_fprop<128, false>;
  run(instance, args, stream);
}

// The tensor map of 64 or so many channels of columns x rows pixels; channels are innermost if they
// are in the tensor. Of float32 the copy engine rounds to TF32.
CUtensorMap grad_output_map(const Conv2dProblem& problem, const void* grad_output, int32_t columns,
                            int32_t rows, CUtensorMapSwizzle swizzle, int32_t channels = 64) {
  const bool of_rows = has_rows_innermost(problem);
  TensorView view;
  view.address = grad_output;
  view.type = problem.type == DataType::kFloat32   ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
              : problem.type == DataType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                   : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  view.element_bytes = static_cast<int>(size_of(problem.type));
  view.rank = 4;
  int64_t extents[] = {problem.k, problem.q(), problem.p(), problem.n};
  int64_t strides[] = {problem.output.c, problem.output.w, problem.output.h, problem.output.n};
  int32_t box[] = {channels, columns, rows, 1};
  if (of_rows) {
    std::swap(extents[0], extents[1]);
    std::swap(strides[0], strides[1]);
    std::swap(box[0], box[1]);
  }
  for (int i = 0; i < 4; ++i) view.extents[i] = extents[i], view.strides[i] = strides[i];
  return map_of_view(view, box, swizzle, "output's gradient");
}

void run_plain_wgrad(const Conv2dProblem& problem, const Plan& plan, const WgradArguments& wgrad,
                     const CUtensorMap& map, cudaStream_t stream) {
  const PlainWgradArguments args{.wgrad = wgrad,
                                 .rows = *plan.plain,
                                 .groups = plan.plain_groups,
                                 .chunks = plan.channels / kPlainChunk};
  const CUtensorMap of_rows = input_rows_map(problem, args.rows.box, 1, wgrad.input);
  const auto run = args.chunks == 1 ? launch_plain_wgrad<1> : launch_plain_wgrad<2>;
  run(problem.type, of_rows, map, args, plan.shared_bytes, stream);
  launch_add_plain_runs(problem.type, args, stream);
}

void run_wgrad(const Conv2dProblem& problem, const Plan& plan, const Operands& operands,
               cudaStream_t stream) {
  WgradArguments args = plan.wgrad;
  args.sweep.input = args.input = operands.input;
  args.grad_output = operands.output;
  args.grad_filter = operands.result;
  args.grad_bias = operands.grad_bias;
  args.partial = static_cast<float*>(operands.workspace);
  const CUtensorMap map =
      plan.rows_innermost
          ? grad_output_map(problem, operands.output, 64, 1, CU_TENSOR_MAP_SWIZZLE_128B)
          : grad_output_map(problem, operands.output, args.sweep.columns, args.sweep.tile_rows,
                            CU_TENSOR_MAP_SWIZZLE_128B);
  if (plan.plain) return run_plain_wgrad(problem, plan, args, map, stream);
  const SumShape& sums = plan.sums;
  const auto start = [&]<bool kRowsInnermost>() {
    const auto run = sums == SumShape{16, 2}   ? launch_wgrad<16, 2, kRowsInnermost>
                     : sums == SumShape{16, 4} ? launch_wgrad<16, 4, kRowsInnermost>
                     : sums == SumShape{32, 4} ? launch_wgrad<32, 4, kRowsInnermost>
                     : sums == SumShape{32, 7} ? launch_wgrad<32, 7, kRowsInnermost>
                                               : launch_wgrad<64, 4, kRowsInnermost>;
    run(problem.type, map, args, plan.shared_bytes, stream);
  };
  plan.rows_innermost ? start.operator()<true>() : start.operator()<false>();
  launch_add_runs(problem.type, args, sums.columns, sums.rows, stream);
}

void run_dgrad(const Conv2dProblem& problem, const Plan& plan, const Operands& operands,
               cudaStream_t stream) {
  check_alignment(operands.result, "result");
  DgradArguments args = plan.dgrad;
  args.grad_output = operands.output;
  args.filter = operands.filter;
  args.grad_input = operands.result;
  const CUtensorMap map =
      plan.rows_innermost
          ? grad_output_map(problem, operands.output, args.box_columns, 1,
                            CU_TENSOR_MAP_SWIZZLE_NONE)
          : grad_output_map(problem, operands.output, args.strip_columns + args.taps_w - 1, 1,
                            args.is_narrow(args.element_bytes) ? CU_TENSOR_MAP_SWIZZLE_64B
                                                               : CU_TENSOR_MAP_SWIZZLE_128B,
                            args.chunk_channels);
  const DgradShape& shape = plan.dgrad_shape;
  if (problem.type == DataType::kFloat32) {
    const auto run = shape == DgradShape{4, 8}    ? launch_dgrad_tf32<4, 8>
                     : shape == DgradShape{2, 16} ? launch_dgrad_tf32<2, 16>
                     : shape == DgradShape{1, 48} ? launch_dgrad_tf32<1, 48>
                                                  : launch_dgrad_tf32<4, 16>;
    return run(map, args, plan.dgrad_blocks, plan.shared_bytes, stream);
  }
  const auto start = [&]<bool kRowsInnermost>() {
    const auto run = shape == DgradShape{1, 48}   ? launch_dgrad<1, 48, kRowsInnermost>
                     : shape == DgradShape{2, 16} ? launch_dgrad<2, 16, kRowsInnermost>
                     : shape == DgradShape{2, 64} ? launch_dgrad<2, 64, kRowsInnermost>
                     : shape == DgradShape{4, 8}  ? launch_dgrad<4, 8, kRowsInnermost>
                     : shape == DgradShape{4, 16} ? launch_dgrad<4, 16, kRowsInnermost>
                     : shape == DgradShape{4, 32} ? launch_dgrad<4, 32, kRowsInnermost>
                                                  : launch_dgrad<8, 8, kRowsInnermost>;
    run(problem.type, map, args, plan.dgrad_blocks, plan.shared_bytes, stream);
  };
  if (shape.blocks > 1) {
    const auto run =
        shape.channels == 16 ? launch_dgrad<2, 16, false, 2> : launch_dgrad<4, 8, false, 2>;
    return run(problem.type, map, args, plan.dgrad_blocks, plan.shared_bytes, stream);
  }
  plan.rows_innermost ? start.operator()<true>() : start.operator()<false>();
}

}  // namespace

void launch(const Conv2dProblem& problem, const Plan& plan, const Operands& operands,
            cudaStream_t stream) {
  const auto run = plan.direction == Direction::kFprop   ? run_fprop
                   : plan.direction == Direction::kDgrad ? run_dgrad
                   : plan.warp_products                  ? run_warp_products
                                                         : run_wgrad;
  run(problem, plan, operands, stream);
}

}  // namespace haloconv::sm90::first_layers

namespace haloconv::first_layers {

void launch(const Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<sm90::first_layers::Plan>(plan);
  sm90::first_layers::launch(made.problem, made.details, operands, stream);
}

}  // namespace haloconv::first_layers
