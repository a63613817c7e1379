// aten::conv2d with padding of four values (top, bottom, left, right), which torch itself takes for
// none: haloconv::conv2d. Every other call of aten::conv2d stays torch's.
//
// It is the quick way from Python: torch's own functions read their arguments several microseconds
// faster than torch.ops reads a custom operator's. The keys are those where an eager call arrives:
// autograd's and vmap's, and BackendSelect where autograd is skipped, as in inference mode or in
// the body of a custom operator. The devices' own are not among them: with a kernel there
// torch.export would no longer decompose aten::conv2d.
#include <ATen/ops/conv2d_native.h>
#include <ATen/ops/conv2d_ops.h>

#include "registration/conv2d/ops.h"
#include "registration/library.h"

namespace haloconv {
namespace {

at::Tensor conv2d(const at::Tensor& input, const at::Tensor& weight,
                  const ops::OptionalTensor& bias, c10::SymIntArrayRef stride,
                  c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, c10::SymInt groups) {
  const auto call = padding.size() == 4 ? &ops::conv2d : &at::native::conv2d_symint;
  return call(input, weight, bias, stride, padding, dilation, std::move(groups));
}

at::Tensor conv2d_below_autograd(c10::DispatchKeySet keys, const at::Tensor& input,
                                 const at::Tensor& weight, const ops::OptionalTensor& bias,
                                 c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                                 c10::SymIntArrayRef dilation, c10::SymInt groups) {
  if (padding.size() == 4) {
    return ops::conv2d(input, weight, bias, stride, padding, dilation, std::move(groups));
  }
  const c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect);
  return at::_ops::conv2d::redispatch(keys & below, input, weight, bias, stride, padding, dilation,
                                      std::move(groups));
}

void implement(torch::Library& m) {
  if (is_first_copy()) m.impl("conv2d", &conv2d);
}

TORCH_LIBRARY_IMPL(aten, AutogradCPU, m) { implement(m); }
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, m) { implement(m); }
TORCH_LIBRARY_IMPL(aten, FuncTorchBatched, m) { implement(m); }
TORCH_LIBRARY_IMPL(aten, BackendSelect, m) {
  if (is_first_copy()) m.impl("conv2d", &conv2d_below_autograd);
}

}  // namespace
}  // namespace haloconv
