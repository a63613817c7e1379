// Runs a saved model and the same as haloconv-rewrite wrote it, on one random input, in turns, and
// prints how long each takes and how far their results differ. Nothing here names haloconv: to the
// program both are models like any other.

#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <torch/script.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kRuns = 11;
// TF32 rounds to 2^-11; layer after layer that comes to a few thousandths. A CPU has none of it.
constexpr double kMaxDifference = 1e-2;

std::vector<int64_t> parse_sizes(const std::string& text) {
  std::vector<int64_t> sizes;
  std::istringstream fields(text);
  for (std::string field; std::getline(fields, field, ',');) sizes.push_back(std::stoll(field));
  return sizes;
}

// A model's result; of several by name, the first.
at::Tensor run(torch::jit::Module& model, const at::Tensor& input) {
  const at::IValue result = model.forward({input});
  if (result.isTensor()) return result.toTensor().cpu();
  return result.toGenericDict().begin()->value().toTensor().cpu();
}

// Milliseconds until the result is on the host.
double time_run(torch::jit::Module& model, const at::Tensor& input) {
  const auto start = std::chrono::steady_clock::now();
  run(model, input);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void compare(const std::string& original_path, const std::string& rewritten_path,
             const std::vector<int64_t>& sizes) {
  const at::Device device = at::hasCUDA() ? at::kCUDA : at::kCPU;
  at::globalContext().setBenchmarkCuDNN(true);
  torch::jit::Module original = torch::jit::load(original_path, device);
  torch::jit::Module rewritten = torch::jit::load(rewritten_path, device);
  const at::Tensor input = at::randn(sizes, device);

  const c10::InferenceMode no_gradients;
  // The executor optimises after it has profiled, and both libraries time their algorithms once.
  for (int i = 0; i < 2; ++i) {
    run(original, input);
    run(rewritten, input);
  }
  const at::Tensor expected = run(original, input);
  const double difference =
      ((run(rewritten, input) - expected).norm() / expected.norm()).item<double>();
  std::vector<double> original_ms, rewritten_ms;
  for (int i = 0; i < kRuns; ++i) {
    original_ms.push_back(time_run(original, input));
    rewritten_ms.push_back(time_run(rewritten, input));
  }

  std::printf("| model | ms | |\n|---|--:|--:|\n");
  std::printf("| as saved | %.2f | |\n", median(original_ms));
  std::printf("| rewritten | %.2f | %.2f times as fast |\n", median(rewritten_ms),
              median(original_ms) / median(rewritten_ms));
  std::printf("relative difference %.1e\n", difference);
  TORCH_CHECK(difference <= kMaxDifference, "the models' results differ");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s ORIGINAL.pt REWRITTEN.pt N,C,H,W\n", argv[0]);
    return 2;
  }
  try {
    compare(argv[1], argv[2], parse_sizes(argv[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
