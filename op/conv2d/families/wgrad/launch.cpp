#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "conv2d/device/precise_float.h"
#include "conv2d/device/with_element.h"
#include "conv2d/families/wgrad/instances.h"
#include "conv2d/families/wgrad/lowered.h"
#include "conv2d/families/wgrad/reduce_partials.h"
#include "conv2d/family.h"
#include "conv2d/geometry/hopper_rows.h"

namespace haloconv::wgrad {

namespace {

template <class T>
void launch(const Instance& instance, const Arguments& args, const RowMaps& maps,
            cudaStream_t stream) {
  if (instance == Instance{3, 48}) return launch_instance<T, 3, 48>(args, maps, stream);
  if constexpr (std::is_same_v<T, PreciseFloat>) {
    if (instance == Instance{2, 56}) return launch_instance<T, 2, 56>(args, maps, stream);
    if (instance == Instance{2, 72}) return launch_instance<T, 2, 72>(args, maps, stream);
  } else {
    if (instance == Instance{9, 32}) return launch_instance<T, 9, 32>(args, maps, stream);
    if (instance == Instance{6, 48}) return launch_instance<T, 6, 48>(args, maps, stream);
    if (instance == Instance{5, 56}) return launch_instance<T, 5, 56>(args, maps, stream);
    if (instance == Instance{4, 64}) return launch_instance<T, 4, 64>(args, maps, stream);
    if constexpr (std::is_same_v<T, float>) {
      if (instance == Instance{5, 40}) return launch_instance<T, 5, 40>(args, maps, stream);
      if (instance == Instance{5, 48}) return launch_instance<T, 5, 48>(args, maps, stream);
    }
  }
  throw std::logic_error("haloconv: no wgrad kernel has these instructions");
}

template <class T>
bool is_aligned(const T* pointer, int32_t vector) {
  return reinterpret_cast<uintptr_t>(pointer) % (sizeof(T) * vector) == 0;
}

template <class T>
void launch_lowered(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                    const T* grad_output, const T* input, T* grad_filter, T* grad_bias,
                    void* workspace, cudaStream_t stream) {
  const auto with_pointers = [&](Arguments args) {
    args.grad_output = grad_output;
    args.input = input;
    args.partial = static_cast<float*>(workspace);
    if (plan.with_bias) args.bias_partial = args.partial + args.partials * args.partial_floats();
    while (!is_aligned(grad_output, args.output_vector)) args.output_vector /= 2;
    if (!is_aligned(grad_output, args.whole_vector)) {
      args.whole_vector = args.output_vector;
      args.row_shift = 0;
    }
    if (!is_aligned(input, args.input_vector)) args.input_vector = 1;
    return args;
  };
  Arguments args = with_pointers(lowered.arguments);
  RowMaps maps{};
  if (args.boxes) {
    std::optional<RowMaps> made;
    if (is_aligned(grad_output, args.row_maps > 1 ? 2 : 4)) made = make_row_maps(args);
    if (made) {
      maps = *made;
    } else {
      args = with_pointers(*lowered.without_boxes);
    }
  }
  launch<T>(plan.instance, args, maps, stream);
  launch_reduce_partials<T>(args, problem.filter, grad_filter, plan.with_bias ? grad_bias : nullptr,
                            stream);
}

template <class T>
void launch_typed(const Conv2dProblem& whole, const Plan& plan, const T* grad_output,
                  const T* input, T* grad_filter, T* grad_bias, void* workspace,
                  cudaStream_t stream) {
  const Conv2dProblem problem = flattened(whole);
  if (plan.lowered) {
    const Lowered& kept = plan.lowered->get([&] { return lower(problem, plan); });
    return launch_lowered(problem, plan, kept, grad_output, input, grad_filter, grad_bias,
                          workspace, stream);
  }
  launch_lowered(problem, plan, lower(problem, plan), grad_output, input, grad_filter, grad_bias,
                 workspace, stream);
}

}  // namespace

void launch(const haloconv::Plan& plan, const Operands& operands, cudaStream_t stream) {
  const auto& made = made_by_family<Plan>(plan);
  const auto launch_as = [&]<class T>(T) {
    launch_typed<T>(made.problem, made.details, static_cast<const T*>(operands.output),
                    static_cast<const T*>(operands.input), static_cast<T*>(operands.result),
                    static_cast<T*>(operands.grad_bias), operands.workspace, stream);
  };
  if (made.details.precise) return launch_as(PreciseFloat{});
  with_element(made.problem.type, launch_as);
}

}  // namespace haloconv::wgrad
