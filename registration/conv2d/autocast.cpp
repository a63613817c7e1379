// Autocast kernels: operands are cast down to the autocast dtype, as aten's convolutions cast them.
#include <ATen/autocast_mode.h>

#include "registration/conv2d/ops.h"
#include "registration/library.h"

namespace haloconv {
namespace {

template <c10::DeviceType kDevice, auto* kOp>
constexpr auto* casting() {
  using Signature = std::remove_pointer_t<decltype(kOp)>;
  return &at::autocast::WrapFunction<at::autocast::CastPolicy::lower_precision_fp, kDevice,
                                     Signature, Signature, kOp>::type::call;
}

template <c10::DeviceType kDevice>
void register_kernels(torch::Library& m) {
  for_each_forward_op([&]<const ForwardOp & kOp>() {
    m.impl(kOp.name, casting<kDevice, bound<kOp, ops::forward>>());
    m.impl(kOp.fused, casting<kDevice, bound<kOp, ops::forward_fused>>());
    m.impl(kOp.explain, casting<kDevice, bound<kOp, ops::explain>>());
  });
  m.impl("conv2d_dgrad", casting<kDevice, unpacked<ops::conv2d_dgrad>>());
  m.impl("conv2d_wgrad", casting<kDevice, unpacked<ops::conv2d_wgrad>>());
  m.impl("conv2d_wgrad_bias", casting<kDevice, unpacked<ops::conv2d_wgrad_bias>>());
  m.impl("conv2d_backward", casting<kDevice, unpacked<ops::conv2d_backward>>());
}

HALOCONV_IMPLEMENT(AutocastCPU, m) { register_kernels<c10::DeviceType::CPU>(m); }
HALOCONV_IMPLEMENT(AutocastCUDA, m) { register_kernels<c10::DeviceType::CUDA>(m); }

}  // namespace
}  // namespace haloconv
