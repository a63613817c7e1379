// The schemas of batch norm with what follows it.
#include "registration/library.h"

namespace haloconv {
namespace {

HALOCONV_DEFINE(m) {
  // The results' layout follows from the input's strides.
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides};
  m.def(
      "batch_norm_act(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!)? running_mean, "
      "Tensor(b!)? running_var, Tensor? residual=None, float momentum=0.1, float eps=1e-5, "
      "str activation=\"none\") -> (Tensor, Tensor, Tensor)",
      tags);
  m.def(
      "batch_norm_act_backward(Tensor grad_output, Tensor input, Tensor? weight, Tensor? bias, "
      "Tensor mean, Tensor invstd, Tensor? residual=None, Tensor? second_grad_output=None, "
      "float eps=1e-5, str activation=\"none\", bool with_residual=False) -> "
      "(Tensor, Tensor, Tensor, Tensor)",
      tags);
}

}  // namespace
}  // namespace haloconv
