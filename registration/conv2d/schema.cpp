// The operators' schemas, and what is the same on every device: padding by name, parameters that
// are numbers, and whether a tensor is a residual.
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

// A string padding in numbers; `name` begins the message of an error.
std::vector<SymInt> sides_of(const ForwardOp& op, c10::string_view padding, const at::Tensor& input,
                             const at::Tensor& weight, SymIntArrayRef stride,
                             SymIntArrayRef dilation, const char* name) {
  if (padding == "valid") return {0};
  TORCH_CHECK(padding == "same", "Invalid padding string: '", padding, "'; ", name,
              ": expected padding to be \"same\", \"valid\" or numbers, but got \"", padding, "\"");
  for (const SymInt& step : stride) {
    TORCH_SYM_CHECK(step.sym_eq(1), "padding='same' is not supported for strided convolutions; ",
                    name, ": expected stride to be 1 with padding=\"same\", but got ", stride);
  }
  check_defined(name, "weight", weight);
  check_weight(name, weight, op, input);
  check_dilation(name, dilation, op);
  std::vector<SymInt> sides;
  for (int64_t dim = 0; dim < op.pixel_dims; ++dim) {
    const SymInt total =
        (dim == 0 ? dilation.front() : dilation.back()) * (weight.sym_size(2 + dim) - 1);
    sides.push_back(total / 2);
    sides.push_back(total - total / 2);
  }
  return sides;
}

template <const ForwardOp& kOp>
at::Tensor forward_padding(const at::Tensor& input, const at::Tensor& weight,
                           const ops::OptionalTensor& bias, SymIntArrayRef stride,
                           c10::string_view padding, SymIntArrayRef dilation, SymInt groups) {
  const auto sides = sides_of(kOp, padding, input, weight, stride, dilation, kOp.name);
  return ops::forward(kOp, input, weight, bias, {{stride, sides, dilation, std::move(groups)}, {}});
}

// With numbers for the parameters, which Python passes faster than lists: one for each of them, or
// one for each side of the padding.
at::Tensor conv2d_square(const at::Tensor& input, const at::Tensor& weight,
                         const ops::OptionalTensor& bias, SymInt stride, SymInt padding,
                         SymInt dilation, SymInt groups) {
  return ops::conv2d(input, weight, bias, {stride, padding, dilation, std::move(groups)});
}

at::Tensor conv2d_sides(const at::Tensor& input, const at::Tensor& weight,
                        const ops::OptionalTensor& bias, SymInt stride, SymInt top, SymInt bottom,
                        SymInt left, SymInt right, SymInt dilation, SymInt groups) {
  const std::array<SymInt, 4> padding = {std::move(top), std::move(bottom), std::move(left),
                                         std::move(right)};
  return ops::conv2d(input, weight, bias, {stride, padding, dilation, std::move(groups)});
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> conv2d_backward_square(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, SymInt stride,
    SymInt padding, SymInt dilation, SymInt groups, bool with_bias, bool input_channels_last,
    bool weight_channels_last) {
  const auto format = [](bool channels_last) {
    return channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  };
  return ops::conv2d_backward(grad_output, input, weight,
                              {stride, padding, dilation, std::move(groups)}, with_bias,
                              format(input_channels_last), format(weight_channels_last));
}

template <const ForwardOp& kOp>
at::Tensor fused_padding(const at::Tensor& input, const at::Tensor& weight,
                         const ops::OptionalTensor& bias, SymIntArrayRef stride,
                         c10::string_view padding, SymIntArrayRef dilation, SymInt groups,
                         const ops::OptionalTensor& scale, const ops::OptionalTensor& shift,
                         const ops::OptionalTensor& residual, c10::string_view activation,
                         at::ArrayRef<double> activation_arguments) {
  const auto sides = sides_of(kOp, padding, input, weight, stride, dilation, kOp.fused);
  return ops::forward_fused(kOp, input, weight, bias,
                            {{stride, sides, dilation, std::move(groups)}, {}}, scale, shift,
                            residual, activation, activation_arguments);
}

// Not under autocast: the result's type would be another one.
bool takes_residual(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                    const at::Tensor& residual, const ForwardParameters& parameters) {
  const c10::DeviceType device = input.device().type();
  if (at::autocast::is_autocast_available(device) && at::autocast::is_autocast_enabled(device)) {
    return false;
  }
  const auto args = check_forward(op, input, weight, {}, parameters, op.name);
  return residual.scalar_type() == input.scalar_type() && residual.device() == input.device() &&
         residual.sym_sizes().equals(args.result_size()) &&
         args.images(residual).is_contiguous(args.memory_format);
}

template <const ForwardOp& kOp>
bool takes_residual_padding(const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& residual, SymIntArrayRef stride,
                            c10::string_view padding, SymIntArrayRef dilation, SymInt groups) {
  const auto sides = sides_of(kOp, padding, input, weight, stride, dilation, kOp.name);
  return takes_residual(kOp, input, weight, residual,
                        {{stride, sides, dilation, std::move(groups)}, {}});
}

template <const ForwardOp& kOp>
std::string explain_padding(const at::Tensor& input, const at::Tensor& weight,
                            const ops::OptionalTensor& bias, SymIntArrayRef stride,
                            c10::string_view padding, SymIntArrayRef dilation, SymInt groups,
                            c10::string_view direction) {
  const auto sides = sides_of(kOp, padding, input, weight, stride, dilation, kOp.explain);
  return ops::explain(kOp, input, weight, bias, {{stride, sides, dilation, std::move(groups)}, {}},
                      direction);
}

// The parameters in a schema, in aten's order. The padding is a string in the overloads of that
// name.
std::string parameters_of(const ForwardOp& op, bool named_padding) {
  const std::string list = op.pixel_dims == 2 ? ", SymInt[2] " : ", SymInt[1] ";
  const std::string padding = named_padding ? ", str padding=\"valid\"" : list + "padding=0";
  return list + "stride=1" + padding +
         (op.transposed ? list + "output_padding=0, SymInt groups=1" + list + "dilation=1"
                        : list + "dilation=1, SymInt groups=1");
}

void define_forward(torch::Library& m, const ForwardOp& op, const std::vector<at::Tag>& tags,
                    bool named_padding) {
  const char* overload = named_padding ? ".padding" : "";
  const std::string parameters = parameters_of(op, named_padding);
  const auto define = [&](const char* name, const std::string& rest) {
    const std::string schema = name + (overload + ("(Tensor input, Tensor weight, " + rest));
    m.def(schema.c_str(), tags);
  };
  define(op.name, "Tensor? bias=None" + parameters + ") -> Tensor");
  define(op.fused, "Tensor? bias=None" + parameters +
                       ", *, Tensor? scale=None, Tensor? shift=None, Tensor? residual=None, "
                       "str activation=\"none\", float[] activation_arguments=[]) -> Tensor");
  define(op.takes_residual, "Tensor residual" + parameters + ") -> bool");
  define(op.explain, "Tensor? bias=None" + parameters + ", str direction=\"fprop\") -> str");
}

HALOCONV_DEFINE(m) {
  // A result's layout depends on its operands' strides, so a compiler must keep these.
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides};
  for (const ForwardOp* op : kForwardOps) {
    define_forward(m, *op, tags, /*named_padding=*/false);
    if (!op->transposed) define_forward(m, *op, tags, /*named_padding=*/true);
  }
  m.def(
      "_conv2d_square(Tensor input, Tensor weight, Tensor? bias, SymInt stride, SymInt padding, "
      "SymInt dilation=1, SymInt groups=1) -> Tensor",
      tags);
  m.def(
      "_conv2d_sides(Tensor input, Tensor weight, Tensor? bias, SymInt stride, SymInt top, "
      "SymInt bottom, SymInt left, SymInt right, SymInt dilation, SymInt groups) -> Tensor",
      tags);
  m.def(
      "_conv2d_backward_square(Tensor grad_output, Tensor input, Tensor weight, SymInt stride, "
      "SymInt padding, SymInt dilation, SymInt groups, bool with_bias, bool input_channels_last, "
      "bool weight_channels_last) -> (Tensor, Tensor, Tensor)",
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
  m.def("force_implementation(str name) -> str", tags);
  m.def("has_cuda() -> bool", tags);
  m.def("activations() -> Dict(str, (str, str, str[], float[]))", tags);
}

void implement_composites(torch::Library& m) {
  m.impl("_conv2d_square", &conv2d_square);
  m.impl("_conv2d_sides", &conv2d_sides);
  m.impl("_conv2d_backward_square", &conv2d_backward_square);
  for_each_forward_op([&]<const ForwardOp & kOp>() {
    m.impl(kOp.takes_residual, bound<kOp, takes_residual>);
    if constexpr (!kOp.transposed) {
      const auto padding = [](const char* name) { return std::string(name) + ".padding"; };
      m.impl(padding(kOp.name).c_str(), &forward_padding<kOp>);
      m.impl(padding(kOp.fused).c_str(), &fused_padding<kOp>);
      m.impl(padding(kOp.takes_residual).c_str(), &takes_residual_padding<kOp>);
      m.impl(padding(kOp.explain).c_str(), &explain_padding<kOp>);
    }
  });
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
