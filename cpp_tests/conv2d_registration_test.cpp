// What a C++ program sees of the library: operators by name, autograd, autocast, errors.
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>
#include <torch/script.h>

#include <cstdio>
#include <string>
#include <thread>

#include "registration/conv2d.h"
#include "registration/tuning.h"

namespace haloconv::testing {
namespace {

std::vector<at::Device> devices() {
  std::vector<at::Device> all = {at::kCPU};
  if (at::hasCUDA()) all.emplace_back(at::kCUDA, 0);
  return all;
}

TEST(Registration, EveryOperatorHasASchema) {
  for (const char* name :
       {"haloconv::conv2d", "haloconv::conv2d_fused", "haloconv::conv2d_dgrad",
        "haloconv::conv2d_wgrad", "haloconv::conv2d_wgrad_bias", "haloconv::conv2d_backward",
        "haloconv::conv2d_takes_residual", "haloconv::explain", "haloconv::force_implementation",
        "haloconv::has_cuda", "haloconv::rewrite_file", "haloconv::tuning_save",
        "haloconv::tuning_load", "haloconv::tuning_clear", "haloconv::tuning_find",
        "haloconv::tuning_add"}) {
    EXPECT_TRUE(c10::Dispatcher::singleton().findSchema({name, ""})) << name;
  }
  for (const char* name : {"haloconv::conv2d", "haloconv::conv2d_fused",
                           "haloconv::conv2d_takes_residual", "haloconv::explain"}) {
    EXPECT_TRUE(c10::Dispatcher::singleton().findSchema({name, "padding"})) << name;
  }
}

TEST(Registration, TuningResultsAreFiles) {
  const std::string file = ::testing::TempDir() + "haloconv-tuning.json";
  haloconv::tuning::clear();
  haloconv::tuning::save(file);
  haloconv::tuning::load(file);
  EXPECT_EQ(std::remove(file.c_str()), 0);
  EXPECT_THROW(haloconv::tuning::load(file), c10::Error);
  std::remove((file + ".lock").c_str());
}

TEST(Registration, ThePublicFunctionIsDifferentiable) {
  const auto input = torch::randn({2, 3, 7, 8}).requires_grad_();
  const auto weight = torch::randn({4, 3, 3, 3}).requires_grad_();
  const auto bias = torch::randn({4}).requires_grad_();
  haloconv::conv2d(input, weight, bias, 2, 1).square().sum().backward();
  const auto gradients = {input.grad().clone(), weight.grad().clone(), bias.grad().clone()};
  for (const auto& tensor : {input, weight, bias}) tensor.mutable_grad().reset();
  at::conv2d(input, weight, bias, 2, 1).square().sum().backward();
  auto expected = {input.grad(), weight.grad(), bias.grad()};
  auto theirs = expected.begin();
  // The same arithmetic by the same code: only the order of float32 sums may differ.
  for (const auto& ours : gradients) EXPECT_TRUE(at::allclose(ours, *theirs++, 1e-5, 1e-5));
}

TEST(Registration, FusionIsWhatFollows) {
  for (const at::Device device : devices()) {
    const auto ones = [&](at::IntArrayRef size) {
      return torch::ones(size, at::TensorOptions().device(device));
    };
    const auto input = ones({2, 3, 7, 8}), weight = ones({4, 3, 3, 3}), k = ones({4});
    const auto residual = ones({2, 4, 7, 8});
    const auto plain = haloconv::conv2d(input, weight, k, 1, 1);
    const auto fused = haloconv::conv2d_fused(
        input, weight, k,
        {.scale = -2 * k, .shift = 3 * k, .residual = residual, .activation = "leaky_relu"}, 1, 1);
    EXPECT_TRUE(at::allclose(fused, at::leaky_relu(plain * -2 + 3 + 1)));
    EXPECT_TRUE(at::equal(haloconv::conv2d_fused(input, weight, k, {}, 1, 1), plain));
    // What a torch::nn module without them holds.
    const auto none = haloconv::conv2d_fused(
        input, weight, at::Tensor(),
        {.scale = at::Tensor(), .shift = at::Tensor(), .residual = at::Tensor()});
    EXPECT_TRUE(at::equal(none, haloconv::conv2d(input, weight)));
  }
}

TEST(Registration, StringAndFourSidedPadding) {
  const auto input = torch::randn({1, 2, 6, 7});
  const auto weight = torch::randn({3, 2, 2, 4});
  const auto same = haloconv::conv2d(input, weight, {}, 1, "same");
  EXPECT_EQ(same.sizes(), (at::IntArrayRef{1, 3, 6, 7}));
  EXPECT_TRUE(at::equal(same, haloconv::conv2d(input, weight, {}, 1, {0, 1, 1, 2})));
  EXPECT_TRUE(
      at::equal(haloconv::conv2d(input, weight, {}, 1, "valid"), haloconv::conv2d(input, weight)));
}

// Literals that would also be null pointers.
TEST(Registration, PaddingOfZeroIsANumber) {
  const auto input = torch::randn({1, 2, 6, 7});
  const auto weight = torch::randn({3, 2, 3, 3});
  EXPECT_TRUE(at::equal(haloconv::conv2d(input, weight, {}, 1, 0), at::conv2d(input, weight)));
  EXPECT_EQ(haloconv::conv2d(input, weight, {}, 1, {0, 1}).sizes(), (at::IntArrayRef{1, 3, 4, 7}));
  const std::string name = "same";
  EXPECT_EQ(haloconv::conv2d(input, weight, {}, 1, name).sizes(), (at::IntArrayRef{1, 3, 6, 7}));
}

// What a torch::nn::Conv2d without bias holds.
TEST(Registration, AnUndefinedBiasIsNone) {
  for (const at::Device device : devices()) {
    const auto options = at::TensorOptions().device(device);
    const auto input = torch::ones({1, 2, 6, 7}, options);
    const auto weight = torch::ones({3, 2, 3, 3}, options);
    EXPECT_TRUE(
        at::equal(haloconv::conv2d(input, weight, at::Tensor()), haloconv::conv2d(input, weight)));
    EXPECT_FALSE(explain(input, weight, at::Tensor(), 1, 0, 1, 1, "wgrad").empty());
  }
}

TEST(Registration, AnEmptyBatchHasZeroGradients) {
  for (const at::Device device : devices()) {
    const auto options = at::TensorOptions().device(device);
    const auto input = torch::ones({0, 2, 6, 7}, options);
    const auto weight = torch::ones({3, 2, 3, 3}, options);
    const auto output = haloconv::conv2d(input, weight);
    EXPECT_EQ(output.sizes(), (at::IntArrayRef{0, 3, 4, 5}));
    EXPECT_EQ(conv2d_dgrad(output, weight, {6, 7}).sizes(), input.sizes());
    const auto [grad_weight, grad_bias] = conv2d_wgrad_bias(output, input, {3, 3});
    EXPECT_TRUE(at::equal(grad_weight, torch::zeros_like(weight)));
    EXPECT_TRUE(at::equal(grad_bias, torch::zeros({3}, options)));
  }
}

TEST(Registration, AllGradientsComeByOneCall) {
  for (const at::Device device : devices()) {
    const auto options = at::TensorOptions().device(device).dtype(at::kDouble);
    const auto input = torch::randint(-3, 4, {2, 4, 6, 7}, options);
    const auto weight = torch::randint(-3, 4, {6, 2, 3, 3}, options);
    const auto grad_output = torch::randint(-3, 4, {2, 6, 3, 7}, options);
    const auto last = at::MemoryFormat::ChannelsLast;
    const auto [dx, dw, db] =
        conv2d_backward(grad_output, input, weight, {2, 1}, 1, 1, 2, true, last);
    EXPECT_TRUE(at::equal(dx, conv2d_dgrad(grad_output, weight, {6, 7}, {2, 1}, 1, 1, 2)));
    EXPECT_TRUE(dx.is_contiguous(last) && dw.is_contiguous());
    const auto [grad_weight, grad_bias] =
        conv2d_wgrad_bias(grad_output, input, {3, 3}, {2, 1}, 1, 1, 2);
    EXPECT_TRUE(at::equal(dw, grad_weight));
    EXPECT_TRUE(at::equal(db, grad_bias));
    const auto without = conv2d_backward(grad_output, input, weight, {2, 1}, 1, 1, 2);
    EXPECT_FALSE(std::get<2>(without).defined());
  }
}

TEST(Registration, AutocastCastsDown) {
  const auto input = torch::randn({1, 2, 6, 7});
  const auto weight = torch::randn({3, 2, 3, 3});
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const auto output = haloconv::conv2d(input, weight);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(output.scalar_type(), at::autocast::get_autocast_dtype(at::kCPU));
  EXPECT_EQ(haloconv::conv2d(input, weight).scalar_type(), at::kFloat);
}

TEST(Registration, ErrorsNameTheArgumentAndTheNextCallWorks) {
  const auto input = torch::randn({1, 2, 6, 7});
  const auto weight = torch::randn({3, 2, 3, 3});
  try {
    haloconv::conv2d(input, weight, {}, 0);
    FAIL() << "a stride of 0 was accepted";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("stride"), std::string::npos) << error.what();
  }
  EXPECT_THROW(haloconv::conv2d(input, torch::randn({3, 5, 3, 3})), c10::Error);
  EXPECT_THROW(haloconv::conv2d(input, weight, {}, 1, "circular"), c10::Error);
  EXPECT_THROW(ForceImplementation("cudnn"), c10::Error);
  EXPECT_EQ(haloconv::conv2d(input, weight).sizes(), (at::IntArrayRef{1, 3, 4, 5}));
}

TEST(Registration, ATensorThatIsNoneIsNamed) {
  const at::Tensor none, some = torch::ones({1, 1, 2, 2});
  const auto expect = [](const char* name, auto call) {
    try {
      call();
      ADD_FAILURE() << name;
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::string("expected ") + name + " to be a tensor"),
                std::string::npos)
          << error.what();
    }
  };
  expect("input", [&] { haloconv::conv2d(none, none); });
  expect("input", [&] { haloconv::conv2d(none, none, {}, 1, "same"); });
  expect("weight", [&] { haloconv::conv2d(some, none, {}, 1, "same"); });
  expect("input", [&] { haloconv::conv2d_fused(none, none); });
  expect("grad_output", [&] { haloconv::conv2d_dgrad(none, none, {2, 2}); });
  expect("grad_output", [&] { haloconv::conv2d_wgrad(none, none, {1, 1}); });
  expect("grad_output", [&] { haloconv::conv2d_wgrad_bias(none, none, {1, 1}); });
  expect("grad_output", [&] { haloconv::conv2d_backward(none, none, none); });
  expect("input", [&] { haloconv::explain(none, none); });
}

TEST(Registration, ForcingHoldsForItsScopeAlone) {
  const auto input = torch::randn({1, 2, 6, 7});
  const auto weight = torch::randn({3, 2, 3, 3});
  {
    const ForceImplementation force("generic");
    EXPECT_THROW(haloconv::conv2d(input, weight), c10::Error);  // generic is CUDA's
  }
  EXPECT_NO_THROW(haloconv::conv2d(input, weight));
}

TEST(Registration, ForcingHoldsForItsThreadAndItsBackwardPassesAlone) {
  const auto input = torch::randn({1, 2, 6, 7});
  const auto weight = torch::randn({3, 2, 3, 3}, torch::requires_grad());
  const auto output = haloconv::conv2d(input, weight);
  const ForceImplementation force("generic");
  std::thread([&] { EXPECT_NO_THROW(haloconv::conv2d(input, weight)); }).join();
  EXPECT_NO_THROW(output.sum().backward());
  EXPECT_THROW(haloconv::conv2d(input, weight), c10::Error);
}

TEST(Registration, ThreadsDoNotDisturbOneAnother) {
  const auto input = torch::randn({2, 8, 16, 16});
  const auto weight = torch::randn({8, 8, 3, 3});
  const auto expected = haloconv::conv2d(input, weight, {}, 1, 1);
  std::vector<at::Tensor> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) result = haloconv::conv2d(input, weight, {}, 1, 1);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_TRUE(at::equal(result, expected));
}

TEST(Registration, ATrainingStepLowersTheLoss) {
  for (const at::Device device : devices()) {
    torch::manual_seed(0);
    const auto options = at::TensorOptions().device(device);
    const auto input = torch::randn({4, 3, 12, 12}, options);
    const auto target = at::conv2d(input, torch::randn({5, 3, 3, 3}, options));
    auto weight = torch::zeros({5, 3, 3, 3}, options).requires_grad_();
    auto bias = torch::zeros({5}, options).requires_grad_();
    torch::optim::SGD optimizer({weight, bias}, 0.1);
    std::vector<double> losses;
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      const auto loss = torch::mse_loss(haloconv::conv2d(input, weight, bias), target);
      loss.backward();
      optimizer.step();
      losses.push_back(loss.item<double>());
    }
    EXPECT_LT(losses.back(), losses.front()) << device;
  }
}

}  // namespace
}  // namespace haloconv::testing
