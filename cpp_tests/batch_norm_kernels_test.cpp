// Batch norm's kernels on the GPU, beside the same in double: with every activation, with and
// without a residual and a second gradient, of shapes that leave threads and blocks without rows.
// Needs a GPU, not torch.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "batch_norm/operands.h"
#include "cpp_tests/device_tensor.h"
#include "cuda/check.h"

namespace haloconv::batch_norm {
namespace {

using testing::Buffer;
using testing::gpu;
using Numbers = std::vector<double>;

// bfloat16 of the nearest even.
uint16_t bits_of(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

double value_of(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// A tensor on the device, poisoned, or with values, which are rounded.
class Images {
 public:
  explicit Images(size_t count) : count_(count), buffer_(static_cast<int64_t>(2 * count)) {}
  explicit Images(Numbers& values) : Images(values.size()) {
    std::vector<uint16_t> bits;
    for (double& value : values) {
      bits.push_back(bits_of(value));
      value = value_of(bits.back());
    }
    check_cuda(cudaMemcpy(buffer_.data(), bits.data(), 2 * count_, cudaMemcpyHostToDevice), "copy");
  }
  void expect(const Numbers& expected, const char* what) const {
    std::vector<uint16_t> bits(count_);
    check_cuda(cudaMemcpy(bits.data(), buffer_.data(), 2 * count_, cudaMemcpyDeviceToHost), "copy");
    for (size_t i = 0; i < count_; ++i) {
      ASSERT_NEAR(value_of(bits[i]), expected[i], 0.02 + std::abs(expected[i]) / 128)
          << what << " at " << i;
    }
    EXPECT_TRUE(buffer_.guards_are_whole()) << what;
  }
  void* data() const { return buffer_.data(); }

 private:
  size_t count_;
  Buffer buffer_;
};

class Vector {
 public:
  explicit Vector(size_t count) : count_(count), buffer_(static_cast<int64_t>(4 * count)) {}
  explicit Vector(const Numbers& values) : Vector(values.size()) {
    const std::vector<float> floats(values.begin(), values.end());
    check_cuda(cudaMemcpy(data(), floats.data(), 4 * count_, cudaMemcpyHostToDevice), "copy");
  }
  void expect(const Numbers& expected, double size, const char* what) const {
    std::vector<float> floats(count_);
    check_cuda(cudaMemcpy(floats.data(), data(), 4 * count_, cudaMemcpyDeviceToHost), "copy");
    for (size_t i = 0; i < count_; ++i) {
      ASSERT_NEAR(floats[i], expected[i], size) << what << " at " << i;
    }
    EXPECT_TRUE(buffer_.guards_are_whole()) << what;
  }
  float* data() const { return reinterpret_cast<float*>(buffer_.data()); }

 private:
  size_t count_;
  Buffer buffer_;
};

struct Case {
  int64_t rows, channels;
  ActivationKind activation;
  bool residual, second;
};

// From -1 to 1, the same for the same seed.
Numbers numbers(size_t count, uint32_t seed) {
  Numbers values(count);
  uint32_t state = seed * 2654435761u + 12345;
  for (double& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<double>(state >> 8) / (1 << 23) - 1;
  }
  return values;
}

double slope(ActivationKind activation, double z) {
  const double s = 1 / (1 + std::exp(-z));
  return activation == ActivationKind::kNone   ? 1
         : activation == ActivationKind::kRelu ? (z <= 0 ? 0 : 1)
                                               : s * (1 + z * (1 - s));
}

double activated(ActivationKind activation, double z) {
  return activation == ActivationKind::kNone   ? z
         : activation == ActivationKind::kRelu ? (z < 0 ? 0 : z)
                                               : z / (1 + std::exp(-z));
}

// All results of both directions, in double.
struct Expected {
  Numbers result, mean, invstd, running_mean, running_var, grad_input, grad_before, grad_weight,
      grad_bias;
};

constexpr double kEps = 1e-3, kMomentum = 0.25;

Expected reference(const Case& of, const Numbers& x, const Numbers& residual, const Numbers& weight,
                   const Numbers& bias, const Numbers& gradient, const Numbers& second) {
  const auto rows = static_cast<size_t>(of.rows), channels = static_cast<size_t>(of.channels);
  Expected e;
  e.result = e.grad_input = e.grad_before = Numbers(x.size());
  for (size_t c = 0; c < channels; ++c) {
    double mean = 0, squares = 0, plain = 0, products = 0;
    for (size_t r = 0; r < rows; ++r) mean += x[r * channels + c] / static_cast<double>(rows);
    for (size_t r = 0; r < rows; ++r) squares += std::pow(x[r * channels + c] - mean, 2);
    const double invstd = 1 / std::sqrt(squares / static_cast<double>(rows) + kEps);
    for (size_t r = 0; r < rows; ++r) {
      const size_t i = r * channels + c;
      const double z =
          (x[i] - mean) * invstd * weight[c] + bias[c] + (of.residual ? residual[i] : 0);
      e.result[i] = activated(of.activation, z);
      e.grad_before[i] = (gradient[i] + (of.second ? second[i] : 0)) * slope(of.activation, z);
      plain += e.grad_before[i];
      products += e.grad_before[i] * (x[i] - mean) * invstd;
    }
    for (size_t r = 0; r < rows; ++r) {
      const size_t i = r * channels + c;
      e.grad_input[i] = weight[c] * invstd *
                        (e.grad_before[i] -
                         (plain + (x[i] - mean) * invstd * products) / static_cast<double>(rows));
    }
    e.mean.push_back(mean);
    e.invstd.push_back(invstd);
    e.running_mean.push_back((1 - kMomentum) * 2 + kMomentum * mean);
    e.running_var.push_back((1 - kMomentum) * 3 +
                            kMomentum * squares / static_cast<double>(rows - 1));
    e.grad_weight.push_back(products);
    e.grad_bias.push_back(plain);
  }
  return e;
}

class BatchNorm : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!testing::has_gpu()) GTEST_SKIP() << "needs a GPU";
  }
};

TEST_P(BatchNorm, IsAsInDouble) {
  const Case& of = GetParam();
  const auto count = static_cast<size_t>(of.rows * of.channels);
  const auto channels = static_cast<size_t>(of.channels);
  Numbers x = numbers(count, 1), added = numbers(count, 2), gradient = numbers(count, 3),
          more = numbers(count, 4), weight = numbers(channels, 5), bias = numbers(channels, 6);
  for (double& value : x) value = 3 * value + 2;
  const Images input(x), residual(added), first(gradient), second(more);
  const Expected e = reference(of, x, added, weight, bias, gradient, more);
  const double all = 1e-3 * static_cast<double>(of.rows) + 0.02;  // gradients are rounded
  const Vector scale(weight), shift(bias);
  for (const int multiprocessors : {gpu().multiprocessors, 3}) {
    const auto plan = make_plan(of.rows, of.channels, multiprocessors);
    if (!plan) continue;  // too few blocks for the slices
    const Buffer workspace(plan->workspace_bytes());
    const Images result(count), grad_input(count), grad_residual(count);
    const Vector mean(channels), invstd(channels), running_mean(Numbers(channels, 2)),
        running_var(Numbers(channels, 3)), grad_weight(channels), grad_bias(channels);
    launch_forward(DataType::kBFloat16, of.activation, *plan,
                   {.input = input.data(),
                    .residual = of.residual ? residual.data() : nullptr,
                    .weight = scale.data(),
                    .bias = shift.data(),
                    .result = result.data(),
                    .mean = mean.data(),
                    .invstd = invstd.data(),
                    .running_mean = running_mean.data(),
                    .running_var = running_var.data(),
                    .momentum = kMomentum,
                    .eps = kEps,
                    .workspace = workspace.data()},
                   nullptr);
    result.expect(e.result, "result");
    mean.expect(e.mean, 1e-5, "mean");
    invstd.expect(e.invstd, 1e-4, "invstd");
    running_mean.expect(e.running_mean, 1e-5, "running_mean");
    running_var.expect(e.running_var, 1e-4, "running_var");
    const bool masked = of.activation != ActivationKind::kNone;
    const bool wanted = (of.residual && masked) || of.second;
    workspace.poison();
    launch_backward(DataType::kBFloat16, of.activation, *plan,
                    {.gradient = first.data(),
                     .second_gradient = of.second ? second.data() : nullptr,
                     .input = input.data(),
                     .residual = of.residual && masked ? residual.data() : nullptr,
                     .weight = scale.data(),
                     .bias = shift.data(),
                     .mean = mean.data(),
                     .invstd = invstd.data(),
                     .grad_input = grad_input.data(),
                     .grad_residual = wanted ? grad_residual.data() : nullptr,
                     .grad_weight = grad_weight.data(),
                     .grad_bias = grad_bias.data(),
                     .workspace = workspace.data()},
                    nullptr);
    if (wanted) grad_residual.expect(e.grad_before, "grad_residual");
    grad_input.expect(e.grad_input, "grad_input");
    grad_weight.expect(e.grad_weight, all, "grad_weight");
    grad_bias.expect(e.grad_bias, all, "grad_bias");
    EXPECT_TRUE(workspace.guards_are_whole());
    if (HasFailure()) return;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto activation :
       {ActivationKind::kNone, ActivationKind::kRelu, ActivationKind::kSilu}) {
    for (const bool residual : {false, true}) {
      for (const bool second : {false, true}) {
        for (const auto& [rows, channels] : std::initializer_list<std::pair<int64_t, int64_t>>{
                 {2, 8}, {37, 24}, {600, 64}, {1025, 72}, {130, 240}, {515, 512}, {49, 2048}}) {
          all.push_back({rows, channels, activation, residual, second});
        }
      }
    }
  }
  return all;
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  const Case& of = info.param;
  const char* const activation = of.activation == ActivationKind::kNone   ? "_plain"
                                 : of.activation == ActivationKind::kRelu ? "_relu"
                                                                          : "_silu";
  return std::to_string(of.rows) + "x" + std::to_string(of.channels) + activation +
         (of.residual ? "_residual" : "") + (of.second ? "_second" : "");
}

INSTANTIATE_TEST_SUITE_P(Cases, BatchNorm, ::testing::ValuesIn(cases()), name_of_case);

}  // namespace
}  // namespace haloconv::batch_norm
