// Loads the scripted autoencoder of examples/python/autoencoder.py, whose layers are
// haloconv::conv2d and haloconv::conv_transpose2d, and turns digits into 8 numbers each and into
// images again. No Python is involved.

#include <ATen/Context.h>
#include <torch/script.h>

#include <cstdio>
#include <exception>
#include <string>

#include "load_pickle.h"

namespace {

// On a GPU both round to TF32, and may be computed by other kernels.
constexpr double kMaxDifference = 1e-2;

void run(const std::string& model_path, const std::string& digits_path) {
  const at::Device device = at::hasCUDA() ? at::kCUDA : at::kCPU;
  torch::jit::Module model = torch::jit::load(model_path, device);
  const auto digits = load_pickle(digits_path).toGenericDict();
  const at::Tensor images = digits.at("images").toTensor();     // (n, 1, 8, 8)
  const at::Tensor expected = digits.at("decoded").toTensor();  // (n, 1, 8, 8), by Python

  const c10::InferenceMode no_gradients;
  const at::Tensor decoded = model.forward({images.to(device)}).toTensor().cpu();
  std::printf("C++     error %.4f\n", (decoded - images).square().mean().sqrt().item<double>());
  const double difference = ((decoded - expected).norm() / expected.norm()).item<double>();
  std::printf("relative difference %.1e\n", difference);
  TORCH_CHECK(difference <= kMaxDifference, "the images differ from Python's");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s autoencoder.pt unseen.pt\n", argv[0]);
    return 2;
  }
  try {
    run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
