// The operators' schemas, and what is the same on every device: string padding, and whether a
// tensor is a residual.
#include <ATen/autocast_mode.h>

#include "registration/conv2d.h"
#include "registration/conv2d/activation.h"
#include "registration/conv2d/checks.h"
#include "registration/conv2d/ops.h"
#include "registration/library.h"

namespace haloconv {
namespace {

using c10::SymInt;
using c10::SymIntArrayRef;

// What a string padding is in numbers; `op` begins the message of an error.
std::vector<SymInt> sides_of(c10::string_view padding, const at::Tensor& weight,
                             SymIntArrayRef stride, SymIntArrayRef dilation, const char* op) {
  if (padding == "valid") return {0};
  TORCH_CHECK(padding == "same", "Invalid padding string: '", padding, "'; ", op,
              ": expected padding to be \"same\", \"valid\" or numbers, but got \"", padding, "\"");
  for (const SymInt& step : stride) {
    TORCH_SYM_CHECK(step.sym_eq(1), "padding='same' is not supported for strided convolutions; ",
                    op, ": expected stride to be 1 with padding=\"same\", but got ", stride);
  }
  check_defined(op, "weight", weight);
  check_weight(op, weight);
  check_dilation(op, dilation);
  const SymInt rows = dilation.front() * (weight.sym_size(2) - 1);
  const SymInt columns = dilation.back() * (weight.sym_size(3) - 1);
  return {rows / 2, rows - rows / 2, columns / 2, columns - columns / 2};
}

at::Tensor conv2d_padding(const at::Tensor& input, const at::Tensor& weight,
                          const ops::OptionalTensor& bias, SymIntArrayRef stride,
                          c10::string_view padding, SymIntArrayRef dilation, SymInt groups) {
  return ops::conv2d(input, weight, bias,
                     {stride, sides_of(padding, weight, stride, dilation, "haloconv::conv2d"),
                      dilation, std::move(groups)});
}

at::Tensor conv2d_fused_padding(const at::Tensor& input, const at::Tensor& weight,
                                const ops::OptionalTensor& bias, SymIntArrayRef stride,
                                c10::string_view padding, SymIntArrayRef dilation, SymInt groups,
                                const ops::OptionalTensor& scale, const ops::OptionalTensor& shift,
                                const ops::OptionalTensor& residual, c10::string_view activation,
                                at::ArrayRef<double> activation_arguments) {
  return ops::conv2d_fused(
      input, weight, bias,
      {stride, sides_of(padding, weight, stride, dilation, "haloconv::conv2d_fused"), dilation,
       std::move(groups)},
      scale, shift, residual, activation, activation_arguments);
}

// Not under autocast: the result's type would be another one.
bool conv2d_takes_residual(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& residual, const Conv2dParameters& parameters) {
  const c10::DeviceType device = input.device().type();
  if (at::autocast::is_autocast_available(device) && at::autocast::is_autocast_enabled(device)) {
    return false;
  }
  const auto args = check_fprop(input, weight, {}, parameters);
  const auto size = args.output_size();
  return residual.scalar_type() == input.scalar_type() && residual.device() == input.device() &&
         residual.sym_sizes().equals(SymIntArrayRef(size).slice(args.batched ? 0 : 1)) &&
         args.batch(residual).is_contiguous(args.memory_format);
}

bool conv2d_takes_residual_padding(const at::Tensor& input, const at::Tensor& weight,
                                   const at::Tensor& residual, SymIntArrayRef stride,
                                   c10::string_view padding, SymIntArrayRef dilation,
                                   SymInt groups) {
  return conv2d_takes_residual(
      input, weight, residual,
      {stride, sides_of(padding, weight, stride, dilation, "haloconv::conv2d"), dilation,
       std::move(groups)});
}

std::string explain_padding(const at::Tensor& input, const at::Tensor& weight,
                            const ops::OptionalTensor& bias, SymIntArrayRef stride,
                            c10::string_view padding, SymIntArrayRef dilation, SymInt groups,
                            c10::string_view direction) {
  return ops::explain(input, weight, bias,
                      {stride, sides_of(padding, weight, stride, dilation, "haloconv::explain"),
                       dilation, std::move(groups)},
                      direction);
}

HALOCONV_DEFINE(m) {
  // A result has the layout that its operands' strides say: a compiler must keep these.
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides};
  m.def(
      "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, "
      "SymInt[2] padding=0, SymInt[2] dilation=1, SymInt groups=1) -> Tensor",
      tags);
  m.def(
      "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, "
      "str padding=\"valid\", SymInt[2] dilation=1, SymInt groups=1) -> Tensor",
      tags);
  m.def(
      "conv2d_fused(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, "
      "SymInt[2] padding=0, SymInt[2] dilation=1, SymInt groups=1, *, Tensor? scale=None, "
      "Tensor? shift=None, Tensor? residual=None, str activation=\"none\", "
      "float[] activation_arguments=[]) -> Tensor",
      tags);
  m.def(
      "conv2d_fused.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, "
      "str padding=\"valid\", SymInt[2] dilation=1, SymInt groups=1, *, Tensor? scale=None, "
      "Tensor? shift=None, Tensor? residual=None, str activation=\"none\", "
      "float[] activation_arguments=[]) -> Tensor",
      tags);
  m.def(
      "conv2d_takes_residual(Tensor input, Tensor weight, Tensor residual, SymInt[2] stride=1, "
      "SymInt[2] padding=0, SymInt[2] dilation=1, SymInt groups=1) -> bool",
      tags);
  m.def(
      "conv2d_takes_residual.padding(Tensor input, Tensor weight, Tensor residual, "
      "SymInt[2] stride=1, str padding=\"valid\", SymInt[2] dilation=1, SymInt groups=1) -> bool",
      tags);
  m.def(
      "conv2d_dgrad(Tensor grad_output, Tensor weight, SymInt[2] input_size, SymInt[2] stride=1, "
      "SymInt[2] padding=0, SymInt[2] dilation=1, SymInt groups=1, *, "
      "MemoryFormat? memory_format=None) -> Tensor",
      tags);
  m.def(
      "conv2d_wgrad(Tensor grad_output, Tensor input, SymInt[2] kernel_size, SymInt[2] stride=1, "
      "SymInt[2] padding=0, SymInt[2] dilation=1, SymInt groups=1, *, "
      "MemoryFormat? memory_format=None) -> Tensor",
      tags);
  m.def(
      "conv2d_wgrad_bias(Tensor grad_output, Tensor input, SymInt[2] kernel_size, "
      "SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] dilation=1, SymInt groups=1, *, "
      "MemoryFormat? memory_format=None) -> (Tensor, Tensor)",
      tags);
  m.def(
      "conv2d_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[2] stride=1, "
      "SymInt[2] padding=0, SymInt[2] dilation=1, SymInt groups=1, *, bool with_bias=False, "
      "MemoryFormat? input_format=None, MemoryFormat? weight_format=None) -> "
      "(Tensor, Tensor, Tensor)",
      tags);
  m.def(
      "explain(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, "
      "SymInt[2] padding=0, SymInt[2] dilation=1, SymInt groups=1, str direction=\"fprop\") -> str",
      tags);
  m.def(
      "explain.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, "
      "str padding=\"valid\", SymInt[2] dilation=1, SymInt groups=1, str direction=\"fprop\") -> "
      "str",
      tags);
  m.def("force_implementation(str name) -> str", tags);
  m.def("has_cuda() -> bool", tags);
  m.def("activations() -> Dict(str, (str, str, str[], float[]))", tags);
}

void implement_composites(torch::Library& m) {
  m.impl("conv2d.padding", &conv2d_padding);
  m.impl("conv2d_fused.padding", &conv2d_fused_padding);
  m.impl("conv2d_takes_residual", unpacked<conv2d_takes_residual>);
  m.impl("conv2d_takes_residual.padding", &conv2d_takes_residual_padding);
  m.impl("explain.padding", &explain_padding);
}

HALOCONV_IMPLEMENT(CompositeImplicitAutograd, m) {
  implement_composites(m);
  m.impl("has_cuda", &has_cuda);
  m.impl("activations", &activations_by_name);
}

// vmap takes no composite kernel by itself: it would loop over the batch.
HALOCONV_IMPLEMENT(FuncTorchBatched, m) { implement_composites(m); }

}  // namespace
}  // namespace haloconv
