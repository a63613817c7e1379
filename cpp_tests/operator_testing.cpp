#include "cpp_tests/operator_testing.h"

#include <limits>

namespace haloconv::testing {

std::vector<Target> cpu_targets() { return {{at::kCPU, "aten"}}; }

std::vector<Target> gpu_targets() {
  if (!at::hasCUDA()) return {};
  const at::Device device(at::kCUDA, 0);
  return {{device, "generic"}, {device, "aten"}, {device, "auto"}};
}

at::Tensor make_tensor(const Values& values, at::IntArrayRef size, Layout layout,
                       at::Device device) {
  // from_blob's memory is the caller's: the copy to float32 makes it the tensor's own.
  const at::Tensor dense = at::from_blob(const_cast<double*>(values.data()), size, at::kDouble)
                               .to(at::kFloat)
                               .to(device);
  switch (layout) {
    case Layout::kContiguous:
      return dense;
    case Layout::kChannelsLast:
      return dense.contiguous(at::MemoryFormat::ChannelsLast);
    case Layout::kSliced:
      break;
  }
  std::vector<int64_t> larger = size.vec();
  for (int64_t& extent : larger) extent += 3;
  at::Tensor part = at::full(larger, std::numeric_limits<float>::quiet_NaN(), dense.options());
  for (size_t i = 0; i < larger.size(); ++i)
    part = part.narrow(static_cast<int64_t>(i), 1, size[i]);
  part.copy_(dense);
  return part;
}

void expect_result(const at::Tensor& result, const Values& expected, const Target& target,
                   const std::string& what) {
  const at::Tensor actual = result.to(at::kCPU, at::kDouble).contiguous();
  ASSERT_EQ(actual.numel(), static_cast<int64_t>(expected.size())) << what;
  const at::Tensor reference =
      at::from_blob(const_cast<double*>(expected.data()), actual.sizes(), at::kDouble);
  if (target.device.is_cpu() || target.implementation == "generic") {
    EXPECT_TRUE(at::equal(actual, reference)) << what << " by " << target.implementation;
  } else {
    const double norm = reference.norm().item<double>();
    EXPECT_LE((actual - reference).norm().item<double>(), 1e-3 * norm)
        << what << " by " << target.implementation;
  }
}

std::vector<int64_t> padding_of(const Conv2dProblem& p) {
  return {p.pad_top, p.pad_bottom, p.pad_left, p.pad_right};
}
std::vector<int64_t> stride_of(const Conv2dProblem& p) { return {p.stride_h, p.stride_w}; }
std::vector<int64_t> dilation_of(const Conv2dProblem& p) { return {p.dilation_h, p.dilation_w}; }

Tensors::Tensors(const Conv2dProblem& p, Layout layout, at::Device device)
    : input_values(small_integers(input_count(p), 1)),
      weight_values(small_integers(filter_count(p), 2)),
      bias_values(small_integers(p.k, 3)),
      grad_values(small_integers(output_count(p), 4)),
      input(make_tensor(input_values, {p.n, p.c, p.h, p.w}, layout, device)),
      weight(make_tensor(weight_values, {p.k, p.group_c(), p.r, p.s}, layout, device)),
      bias(make_tensor(bias_values, {p.k}, layout == Layout::kSliced ? layout : Layout::kContiguous,
                       device)),
      grad_output(make_tensor(grad_values, {p.n, p.k, p.p(), p.q()}, layout, device)) {}

}  // namespace haloconv::testing
