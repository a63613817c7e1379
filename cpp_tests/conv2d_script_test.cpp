// A TorchScript module that calls the operator: defined, saved, loaded and trained from C++.
#include <gtest/gtest.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/script.h>

#include <sstream>

#include "registration/conv2d.h"

namespace haloconv::testing {
namespace {

// Finds `haloconv` in a script's text, as torch.ops.haloconv is found in Python's.
struct Resolver : torch::jit::Resolver {
  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string& name,
                                                         torch::jit::GraphFunction&,
                                                         const torch::jit::SourceRange&) override {
    if (name != "haloconv") return nullptr;
    return std::make_shared<torch::jit::BuiltinModule>(name);
  }
};

torch::jit::Module module_with_conv2d() {
  torch::jit::Module module("Layer");
  torch::manual_seed(0);
  module.register_parameter("weight", torch::randn({4, 3, 3, 3}).requires_grad_(), false);
  module.register_parameter("bias", torch::randn({4}).requires_grad_(), false);
  module.define(R"(
    def forward(self, x):
        same = haloconv.conv2d(x, self.weight, self.bias, 1, "same")
        return haloconv.conv2d(same, self.weight[:, :1], None, [1, 2], [1, 0], [1, 1], 4)
  )",
                std::make_shared<Resolver>());
  return module;
}

at::Tensor expected(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::conv2d(at::conv2d(x, weight, bias, 1, 1), weight.slice(1, 0, 1), {}, {1, 2}, {1, 0}, 1,
                    4);
}

std::vector<at::Device> devices() {
  std::vector<at::Device> all = {at::kCPU};
  if (at::hasCUDA()) all.emplace_back(at::kCUDA, 0);
  return all;
}

TEST(Script, SavedModuleRunsForwardAndBackward) {
  std::stringstream file;
  module_with_conv2d().save(file);
  for (const at::Device device : devices()) {
    file.seekg(0);
    auto module = torch::jit::load(file, device);
    const auto x = torch::randn({2, 3, 9, 11}, at::TensorOptions().device(device)).requires_grad_();
    // Twice and more: the executor optimises after it has profiled.
    for (int run = 0; run < 3; ++run) {
      const auto weight = module.attr("weight").toTensor();
      const auto bias = module.attr("bias").toTensor();
      for (const auto& tensor : {x, weight, bias}) tensor.mutable_grad().reset();
      const auto output = module.forward({x}).toTensor();
      output.square().sum().backward();
      const auto x2 = x.detach().to(at::kDouble).requires_grad_();
      const auto weight2 = weight.detach().to(at::kDouble).requires_grad_();
      const auto bias2 = bias.detach().to(at::kDouble).requires_grad_();
      const auto output2 = expected(x2, weight2, bias2);
      output2.square().sum().backward();
      // Two layers and a square, each rounding its operands: to 2^-24 on the CPU (sums of at most
      // 400 terms add less than ten times that), to TF32's 2^-11 on a GPU.
      const double tolerance = device.is_cpu() ? 10 * 4 * 0x1p-24 : 4 * 0x1p-11;
      const auto near = [&](const at::Tensor& a, const at::Tensor& b) {
        return ((a - b).norm() / b.norm()).item<double>() < tolerance;
      };
      EXPECT_TRUE(near(output, output2)) << device;
      EXPECT_TRUE(near(x.grad(), x2.grad())) << device;
      EXPECT_TRUE(near(weight.grad(), weight2.grad())) << device;
      EXPECT_TRUE(near(bias.grad(), bias2.grad())) << device;
    }
  }
}

TEST(Script, FrozenModuleKeepsTheOperator) {
  auto module = module_with_conv2d();
  module.eval();
  const auto x = torch::randn({1, 3, 8, 8});
  const auto before = module.forward({x}).toTensor();
  const auto frozen = torch::jit::freeze(module);
  auto graph = frozen.get_method("forward").graph();
  int count = 0;
  for (const auto* node : graph->nodes()) {
    count += node->kind() == c10::Symbol::fromQualString("haloconv::conv2d");
  }
  EXPECT_EQ(count, 2) << graph->toString();
  EXPECT_TRUE(at::equal(torch::jit::Module(frozen).forward({x}).toTensor(), before));
}

}  // namespace
}  // namespace haloconv::testing
