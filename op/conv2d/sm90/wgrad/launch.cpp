#include <cstdint>
#include <stdexcept>

#include "conv2d/sm90/plan.h"
#include "conv2d/sm90/sm90.h"
#include "conv2d/sm90/wgrad/instances.h"
#include "conv2d/sm90/wgrad/reduce_parts.h"

namespace haloconv::sm90 {

namespace {

using wgrad::Arguments;

void launch(const wgrad::Instance& instance, const Arguments& args, const wgrad::RowMaps& maps,
            cudaStream_t stream) {
  if (instance == wgrad::Instance{9, 32}) return wgrad::launch_9x32(args, maps, stream);
  if (instance == wgrad::Instance{6, 48}) return wgrad::launch_6x48(args, maps, stream);
  if (instance == wgrad::Instance{5, 56}) return wgrad::launch_5x56(args, maps, stream);
  if (instance == wgrad::Instance{3, 48}) return wgrad::launch_3x48(args, maps, stream);
  if (instance == wgrad::Instance{4, 64}) return wgrad::launch_4x64(args, maps, stream);
  throw std::logic_error("haloconv: no sm90 wgrad kernel has these slots");
}

bool is_aligned(const float* pointer, int32_t vector) {
  return reinterpret_cast<uintptr_t>(pointer) % (sizeof(float) * vector) == 0;
}

}  // namespace

void launch_wgrad(const Conv2dProblem& whole, const wgrad::Plan& plan, const float* grad_output,
                  const float* input, float* grad_filter, float* grad_bias, void* workspace,
                  cudaStream_t stream) {
  const Conv2dProblem problem = flattened(whole);
  std::optional<Arguments> made = wgrad::make_arguments(problem, plan);
  if (made && made->boxes && !is_aligned(grad_output, made->row_maps > 1 ? 2 : 4)) {
    made = wgrad::make_arguments(problem, wgrad::without_boxes(problem, plan));
  }
  if (!made) throw std::logic_error("haloconv: the sm90 wgrad kernels have no tiles of this plan");
  Arguments& args = *made;
  args.grad_output = grad_output;
  args.input = input;
  args.partial = static_cast<float*>(workspace);
  if (plan.with_bias) args.bias_partial = args.partial + args.parts * args.part_floats();
  while (!is_aligned(grad_output, args.output_vector)) args.output_vector /= 2;
  if (!is_aligned(input, args.input_vector)) args.input_vector = 1;
  launch(plan.instance, args, args.boxes ? wgrad::make_row_maps(args) : wgrad::RowMaps{}, stream);
  wgrad::launch_reduce_parts(args, problem.filter, grad_filter,
                             plan.with_bias ? grad_bias : nullptr, stream);
}

}  // namespace haloconv::sm90
