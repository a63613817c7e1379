// Tensors that no kernel takes: sparse, quantized, of a device without kernels.
#include <ATen/core/stack.h>

#include "registration/conv2d/forward_ops.h"
#include "registration/library.h"

namespace haloconv {
namespace {

constexpr const char* kDevices = HALOCONV_HAS_CUDA ? "CPU or CUDA" : "CPU";

bool has_kernels(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && !tensor.is_quantized() &&
         (tensor.is_cpu() || tensor.is_meta() || (HALOCONV_HAS_CUDA && tensor.is_cuda()));
}

void refuse(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const auto values = torch::jit::last(*stack, arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (values[i].isTensor() && !has_kernels(values[i].toTensor())) {
      const at::Tensor& tensor = values[i].toTensor();
      const std::string message = c10::str(
          op.schema().name(), ": expected ", arguments[i].name(), " to be a strided tensor on ",
          kDevices, " that is not quantized, which is what this build has kernels for, but got a ",
          tensor.layout(), " tensor of dtype ", tensor.scalar_type(), " on ", tensor.device());
      // The exceptions that aten's conv2d raises.
      TORCH_CHECK_NOT_IMPLEMENTED(!tensor.is_quantized(), message);
      TORCH_CHECK(false, message);
    }
  }
  TORCH_CHECK(false, op.schema().name(), ": no kernel takes tensors of these kinds together");
}

HALOCONV_IMPLEMENT(CompositeExplicitAutograd, m) {
  const auto implement = [&](const char* name) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
  };
  for (const ForwardOp* op : kForwardOps) {
    for (const char* name : {op->name, op->fused, op->explain}) implement(name);
  }
  for (const char* name :
       {"conv2d_dgrad", "conv2d_wgrad", "conv2d_wgrad_bias", "conv2d_backward"}) {
    implement(name);
  }
}

}  // namespace
}  // namespace haloconv
