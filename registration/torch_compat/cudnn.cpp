#include "registration/torch_compat/cudnn.h"

#include <ATen/Context.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/cudnn_convolution_cuda_dispatch.h>

namespace haloconv::cudnn {
namespace {

using c10::SymInt;

std::array<SymInt, 2> shared_padding(const Conv2dArguments& args) {
  return {args.padding[0], args.padding[2]};
}

bool is_even(const std::array<SymInt, 4>& padding) {
  return padding[0] == padding[1] && padding[2] == padding[3];
}

// Those of which a problem knows the type.
bool is_known(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
}

bool is_deterministic() {
  const at::Context& context = at::globalContext();
  return context.deterministicCuDNN() || context.deterministicAlgorithms();
}

}  // namespace

bool is_atens_choice(const Conv2dArguments& args, const at::Tensor& input, const at::Tensor& weight,
                     const std::optional<at::Tensor>& bias) {
  if (!is_even(args.padding) || !is_known(input.scalar_type())) return false;
  const std::array<SymInt, 2> no_output_padding = {0, 0};
  const auto backend = at::native::select_conv_backend(
      input, weight, bias, args.stride, shared_padding(args), args.dilation, /*transposed=*/false,
      no_output_padding, args.groups, /*bias_sizes_opt=*/std::nullopt);
  return backend == at::native::ConvBackend::Cudnn &&
         at::native::_determine_backend_memory_format(input, weight, backend) == args.memory_format;
}

int settings() { return 2 * at::globalContext().userEnabledCuDNN() + is_deterministic(); }

at::Tensor fprop(const Conv2dArguments& args, const at::Tensor& input, const at::Tensor& weight,
                 const std::optional<at::Tensor>& bias) {
  const at::Context& context = at::globalContext();
  const at::Tensor output = at::cuda::cudnn_convolution_symint(
      input, weight, shared_padding(args), args.stride, args.dilation, args.groups,
      context.benchmarkCuDNN(), is_deterministic(), context.allowTF32CuDNN(at::Float32Op::CONV));
  if (is_given(bias)) output.add_(bias->reshape({-1, 1, 1}));
  return output;
}

}  // namespace haloconv::cudnn
