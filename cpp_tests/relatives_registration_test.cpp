// What a C++ program sees of conv_transpose2d, conv1d and conv_transpose1d.
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/script.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "registration/conv2d.h"

namespace haloconv::testing {
namespace {

std::vector<at::Device> devices() {
  std::vector<at::Device> all = {at::kCPU};
  if (at::hasCUDA()) all.emplace_back(at::kCUDA, 0);
  return all;
}

// Small integers, whose sums are exact in float64 whatever the order: ATen's results are equal.
at::Tensor integers(at::IntArrayRef size, at::Device device) {
  return torch::randint(-4, 5, size, at::TensorOptions().dtype(at::kDouble).device(device));
}

using Convolution = std::function<at::Tensor(const at::Tensor&, const at::Tensor&,
                                             const std::optional<at::Tensor>&)>;

// Values and gradients.
void expect_equal(const Convolution& ours, const Convolution& theirs, at::IntArrayRef input,
                  at::IntArrayRef weight, int64_t channels) {
  for (const at::Device device : devices()) {
    torch::manual_seed(0);
    const std::vector<at::Tensor> leaves = {integers(input, device).requires_grad_(),
                                            integers(weight, device).requires_grad_(),
                                            integers({channels}, device).requires_grad_()};
    const auto output = ours(leaves[0], leaves[1], leaves[2]);
    const auto expected = theirs(leaves[0], leaves[1], leaves[2]);
    EXPECT_TRUE(at::equal(output, expected)) << device;
    const auto g = integers(output.sizes(), device);
    const auto gradients = torch::autograd::grad({output}, leaves, {g});
    const auto expected_gradients = torch::autograd::grad({expected}, leaves, {g});
    for (size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_TRUE(at::equal(gradients[i], expected_gradients[i])) << device << ": operand " << i;
    }
  }
}

TEST(Relatives, EveryOperatorHasASchema) {
  for (const std::string name : {"conv_transpose2d", "conv1d", "conv_transpose1d"}) {
    for (const char* kind : {"", "_fused", "_takes_residual", "_explain"}) {
      const c10::OperatorName full = {"haloconv::" + name + kind, ""};
      EXPECT_TRUE(c10::Dispatcher::singleton().findSchema(full)) << full;
      const c10::OperatorName padding = {full.name, "padding"};
      EXPECT_EQ(c10::Dispatcher::singleton().findSchema(padding).has_value(), name == "conv1d")
          << padding;
    }
  }
}

TEST(Relatives, ConvTranspose2dIsAtens) {
  expect_equal(
      [](const auto& x, const auto& w, const auto& b) {
        return haloconv::conv_transpose2d(x, w, b, {2, 3}, 1, {1, 0}, 2, {1, 2});
      },
      [](const auto& x, const auto& w, const auto& b) {
        return at::conv_transpose2d(x, w, b, {2, 3}, 1, {1, 0}, 2, {1, 2});
      },
      {2, 4, 5, 4}, {4, 3, 3, 2}, 6);
}

TEST(Relatives, Conv1dIsAtens) {
  expect_equal(
      [](const auto& x, const auto& w, const auto& b) {
        return haloconv::conv1d(x, w, b, 2, 1, 2, 2);
      },
      [](const auto& x, const auto& w, const auto& b) { return at::conv1d(x, w, b, 2, 1, 2, 2); },
      {2, 4, 15}, {6, 2, 3}, 6);
}

TEST(Relatives, ConvTranspose1dIsAtens) {
  expect_equal([](const auto& x, const auto& w,
                  const auto& b) { return haloconv::conv_transpose1d(x, w, b, 3, 1, 1, 2, 2); },
               [](const auto& x, const auto& w, const auto& b) {
                 return at::conv_transpose1d(x, w, b, 3, 1, 1, 2, 2);
               },
               {2, 4, 7}, {4, 3, 3}, 6);
}

TEST(Relatives, PaddingOfEachSide) {
  const auto x = integers({2, 3, 6}, at::kCPU), w = integers({4, 3, 3}, at::kCPU);
  const auto causal = haloconv::conv1d(x, w, {}, 1, /*padding=*/{2, 0});
  EXPECT_TRUE(at::equal(causal, at::conv1d(at::constant_pad_nd(x, {2, 0}), w)));
  const auto v = integers({3, 4, 3}, at::kCPU);
  EXPECT_TRUE(at::equal(haloconv::conv_transpose1d(x, v, {}, 2, /*padding=*/{0, 3}),
                        at::conv_transpose1d(x, v, {}, 2).slice(2, 0, -3)));
  const auto image = integers({2, 3, 5, 4}, at::kCPU), filters = integers({3, 2, 2, 3}, at::kCPU);
  EXPECT_TRUE(at::equal(haloconv::conv_transpose2d(image, filters, {}, 2, /*padding=*/{1, 0, 2, 3}),
                        at::conv_transpose2d(image, filters, {}, 2).slice(2, 1).slice(3, 2, -3)));
  EXPECT_TRUE(at::equal(haloconv::conv1d(x, w, {}, 1, "same"), at::conv1d(x, w, {}, 1, 1)));
  EXPECT_TRUE(at::equal(haloconv::conv1d(x, w, {}, 1, "valid"), haloconv::conv1d(x, w, {}, 1, 0)));
}

TEST(Relatives, FusionIsWhatFollows) {
  for (const at::Device device : devices()) {
    const auto k = integers({4}, device);
    const auto check = [&](const at::Tensor& plain, const auto& fused) {
      const auto residual = integers(plain.sizes(), device);
      std::vector<int64_t> size(plain.dim() - 1, 1);
      size[0] = 4;
      const auto of_channels = k.view(size);
      EXPECT_TRUE(
          at::equal(fused({.scale = k, .shift = k, .residual = residual, .activation = "relu"}),
                    at::relu(plain * of_channels + of_channels + residual)))
          << device;
    };
    const auto x = integers({2, 3, 6}, device), w = integers({4, 3, 3}, device);
    const auto image = integers({2, 3, 4, 5}, device), v = integers({3, 4, 2, 3}, device);
    check(haloconv::conv1d(x, w), [&](const Conv2dFusion& f) { return conv1d_fused(x, w, {}, f); });
    const auto taps = integers({3, 4, 2}, device);
    check(haloconv::conv_transpose1d(x, taps),
          [&](const Conv2dFusion& f) { return conv_transpose1d_fused(x, taps, {}, f); });
    check(haloconv::conv_transpose2d(image, v),
          [&](const Conv2dFusion& f) { return conv_transpose2d_fused(image, v, {}, f); });
  }
}

TEST(Relatives, ExplainSaysWhatRuns) {
  const auto x = integers({2, 3, 6}, at::kCPU), w = integers({3, 3, 3}, at::kCPU);
  for (const char* direction : {"fprop", "dgrad", "wgrad"}) {
    EXPECT_NE(conv1d_explain(x, w, {}, 1, 0, 1, 1, direction).find("aten"), std::string::npos);
    EXPECT_NE(conv_transpose1d_explain(x, w, {}, 1, 0, 0, 1, 1, direction).find("aten"),
              std::string::npos);
    EXPECT_NE(conv_transpose2d_explain(x.unsqueeze(2), w.unsqueeze(2), {}, 1, 0, 0, 1, 1, direction)
                  .find("aten"),
              std::string::npos);
  }
  EXPECT_THROW(conv1d_explain(x, w, {}, 1, 0, 1, 1, "sideways"), c10::Error);
}

TEST(Relatives, UndefinedTensors) {
  const auto x = integers({2, 3, 6}, at::kCPU), w = integers({3, 3, 3}, at::kCPU);
  EXPECT_THROW(haloconv::conv1d(at::Tensor(), w), c10::Error);
  EXPECT_THROW(haloconv::conv_transpose1d(x, at::Tensor()), c10::Error);
  EXPECT_TRUE(at::equal(haloconv::conv1d(x, w, at::Tensor()), haloconv::conv1d(x, w)));
  EXPECT_TRUE(
      at::equal(haloconv::conv_transpose1d(x, w, at::Tensor()), haloconv::conv_transpose1d(x, w)));
}

// Finds `haloconv` in a script's text, as torch.ops.haloconv is found in Python's.
struct Resolver : torch::jit::Resolver {
  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string& name,
                                                         torch::jit::GraphFunction&,
                                                         const torch::jit::SourceRange&) override {
    if (name != "haloconv") return nullptr;
    return std::make_shared<torch::jit::BuiltinModule>(name);
  }
};

TEST(Relatives, ASavedModuleRunsForwardAndBackward) {
  torch::jit::Module made("Layer");
  made.register_parameter("weight", integers({4, 4, 3}, at::kCPU).requires_grad_(), false);
  made.define(R"(
    def forward(self, x):
        x = haloconv.conv1d(x, self.weight, None, 1, [2, 0])
        x = haloconv.conv_transpose1d_fused(x, self.weight, None, 2, 1, activation="relu")
        w = self.weight.unsqueeze(2)
        return haloconv.conv_transpose2d(x.unsqueeze(2), w, None, [1, 2], 0, [0, 1])
  )",
              std::make_shared<Resolver>());
  std::stringstream file;
  made.save(file);
  for (const at::Device device : devices()) {
    file.seekg(0);
    auto module = torch::jit::load(file, device);
    const auto x = integers({2, 4, 9}, device).requires_grad_();
    const auto w = module.attr("weight").toTensor();
    const auto expected = at::conv_transpose2d(
        at::relu(at::conv_transpose1d(at::conv1d(at::constant_pad_nd(x, {2, 0}), w), w, {}, 2, 1))
            .unsqueeze(2),
        w.unsqueeze(2), {}, {1, 2}, 0, {0, 1});
    const auto g = integers(expected.sizes(), device);
    const auto gradients = torch::autograd::grad({expected}, {x, w}, {g});
    for (int run = 0; run < 3; ++run) {  // the executor optimises after it has profiled
      const auto output = module.forward({x}).toTensor();
      EXPECT_TRUE(at::equal(output, expected)) << device;
      const auto ours = torch::autograd::grad({output}, {x, w}, {g});
      EXPECT_TRUE(at::equal(ours[0], gradients[0])) << device;
      EXPECT_TRUE(at::equal(ours[1], gradients[1])) << device;
    }
  }
}

}  // namespace
}  // namespace haloconv::testing
