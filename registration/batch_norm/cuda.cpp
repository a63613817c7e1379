// CUDA kernels: op/ computes what it has kernels for, 16-bit tensors with channels innermost, and
// ATen the rest.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include "batch_norm/operands.h"
#include "chip/chip_of_device.h"
#include "conv2d/choice.h"
#include "cuda/device.h"
#include "registration/batch_norm/aten.h"
#include "registration/batch_norm/checks.h"
#include "registration/conv2d/epilogue.h"
#include "registration/conv2d/force.h"
#include "registration/library.h"
#include "registration/torch_compat/cuda_empty.h"

namespace haloconv {
namespace {

using batch_norm::Plan;

bool is_plain_vector(const ops::OptionalTensor& vector) {
  return !is_given(vector) || (vector->scalar_type() == at::kFloat && vector->is_contiguous());
}

bool begins_at_16_bytes(const at::Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
}

// The plan of the kernels; none if they do not take such tensors. Each of `vectors` may be left
// out.
template <class... Vectors>
std::optional<Plan> plan_for(const at::Tensor& input, const Activation& activation,
                             const Vectors&... vectors) {
  const auto type = input.scalar_type();
  if ((type != at::kHalf && type != at::kBFloat16) || input.dim() != 4 ||
      !input.is_contiguous(at::MemoryFormat::ChannelsLast) || !begins_at_16_bytes(input) ||
      !batch_norm::has_kernels(activation.kind) || !(is_plain_vector(vectors) && ...) ||
      forced_implementation() == kAten || input.numel() == 0 ||
      !why_no_kernels(input.get_device()).empty()) {
    return std::nullopt;
  }
  const int64_t channels = input.size(1);
  return batch_norm::make_plan(input.numel() / channels, channels,
                               chip_of_device(input.get_device()).multiprocessors);
}

DataType type_of(const at::Tensor& input) {
  return input.scalar_type() == at::kHalf ? DataType::kFloat16 : DataType::kBFloat16;
}

// The tensor as the kernels read it: like the input.
at::Tensor as_rows(const at::Tensor& tensor) {
  const at::Tensor rows = tensor.contiguous(at::MemoryFormat::ChannelsLast);
  return begins_at_16_bytes(rows) ? rows : rows.clone();
}

at::Tensor as_rows(const ops::OptionalTensor& tensor) {
  return is_given(tensor) ? as_rows(*tensor) : at::Tensor();
}

const void* pointer(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

const float* pointer(const ops::OptionalTensor& vector) {
  return is_given(vector) ? vector->const_data_ptr<float>() : nullptr;
}

float* written(const ops::OptionalTensor& vector) {
  return is_given(vector) ? vector->mutable_data_ptr<float>() : nullptr;
}

at::Tensor empty_vector(const at::Tensor& input) {
  return at::empty(input.size(1), input.options().dtype(at::kFloat));
}

// Calls launch(workspace, stream) on the current stream.
template <class Launch>
void run(const Plan& plan, Launch launch) {
  const auto workspace =
      at::cuda::getCUDADeviceAllocator()->allocate(static_cast<size_t>(plan.workspace_bytes()));
  const auto stream = at::cuda::getCurrentCUDAStream();
  use_device(stream.device_index());
  launch(workspace.get(), stream.stream());
}

ops::BatchNormResults batch_norm_act(const at::Tensor& input, const ops::OptionalTensor& weight,
                                     const ops::OptionalTensor& bias,
                                     const ops::OptionalTensor& running_mean,
                                     const ops::OptionalTensor& running_var,
                                     const ops::OptionalTensor& residual, double momentum,
                                     double eps, c10::string_view activation) {
  const Activation checked =
      check_batch_norm(input, weight, bias, running_mean, running_var, residual, activation);
  const c10::DeviceGuard device(input.device());
  const auto plan = plan_for(input, checked, weight, bias, running_mean, running_var);
  if (!plan) {
    return aten::batch_norm(input, weight, bias, running_mean, running_var, residual, momentum, eps,
                            checked);
  }
  const at::Tensor added = as_rows(residual);
  const at::Tensor result = cuda_empty(input.sizes(), input, input.suggest_memory_format());
  const at::Tensor mean = empty_vector(input), invstd = empty_vector(input);
  run(*plan, [&](void* workspace, cudaStream_t stream) {
    batch_norm::launch_forward(type_of(input), checked.kind, *plan,
                               {.input = pointer(input),
                                .residual = pointer(added),
                                .weight = pointer(weight),
                                .bias = pointer(bias),
                                .result = result.mutable_data_ptr(),
                                .mean = written(mean),
                                .invstd = written(invstd),
                                .running_mean = written(running_mean),
                                .running_var = written(running_var),
                                .momentum = static_cast<float>(momentum),
                                .eps = static_cast<float>(eps),
                                .workspace = workspace},
                               stream);
  });
  return {result, mean, invstd};
}

ops::BatchNormGradients batch_norm_act_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const ops::OptionalTensor& weight,
    const ops::OptionalTensor& bias, const at::Tensor& mean, const at::Tensor& invstd,
    const ops::OptionalTensor& residual, const ops::OptionalTensor& second_grad_output, double eps,
    c10::string_view activation, bool with_residual) {
  const Activation checked =
      check_batch_norm_backward(grad_output, input, weight, bias, mean, invstd, residual,
                                second_grad_output, activation, with_residual);
  const c10::DeviceGuard device(input.device());
  const auto plan = plan_for(input, checked, weight, bias, ops::OptionalTensor(mean),
                             ops::OptionalTensor(invstd));
  if (!plan) {
    return aten::batch_norm_backward(grad_output, input, weight, bias, mean, invstd, residual,
                                     second_grad_output, eps, checked, with_residual);
  }
  const auto images = [&] {
    return cuda_empty(input.sizes(), input, input.suggest_memory_format());
  };
  const at::Tensor gradient = as_rows(grad_output), second = as_rows(second_grad_output);
  const bool is_masked = checked.kind != ActivationKind::kNone;
  const at::Tensor added = is_masked ? as_rows(residual) : at::Tensor();
  const at::Tensor grad_input = images(), grad_residual = with_residual ? images() : at::Tensor();
  const at::Tensor grad_weight = empty_vector(input), grad_bias = empty_vector(input);
  run(*plan, [&](void* workspace, cudaStream_t stream) {
    batch_norm::launch_backward(
        type_of(input), checked.kind, *plan,
        {.gradient = pointer(gradient),
         .second_gradient = pointer(second),
         .input = pointer(input),
         .residual = pointer(added),
         .weight = pointer(weight),
         .bias = pointer(bias),
         .mean = mean.const_data_ptr<float>(),
         .invstd = invstd.const_data_ptr<float>(),
         .grad_input = grad_input.mutable_data_ptr(),
         .grad_residual = with_residual ? grad_residual.mutable_data_ptr() : nullptr,
         .grad_weight = written(grad_weight),
         .grad_bias = written(grad_bias),
         .workspace = workspace},
        stream);
  });
  // Without an activation and a second gradient it is the gradient, which the kernel only reads.
  if (with_residual && !is_masked && !second.defined()) grad_residual.copy_(gradient);
  return {grad_input, grad_residual, grad_weight, grad_bias};
}

HALOCONV_IMPLEMENT(CUDA, m) {
  m.impl("batch_norm_act", &batch_norm_act);
  m.impl("batch_norm_act_backward", &batch_norm_act_backward);
}

}  // namespace
}  // namespace haloconv
