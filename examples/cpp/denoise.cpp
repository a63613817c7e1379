// Loads a scripted model that holds haloconv::conv2d and a noisy photograph, both written by
// examples/python/denoise.py, and denoises it. No Python is involved: linking haloconv::haloconv
// registers the operators before main() begins.

#include <ATen/Context.h>
#include <torch/script.h>

#include <cstdio>
#include <exception>
#include <string>

#include "load_pickle.h"

namespace {

// Peak signal-to-noise ratio in dB, where white is 1.
double psnr(const at::Tensor& image, const at::Tensor& clean) {
  return -10 * (image - clean).square().mean().log10().item<double>();
}

void denoise(const std::string& model_path, const std::string& photograph_path) {
  const at::Device device = at::hasCUDA() ? at::kCUDA : at::kCPU;
  torch::jit::Module model = torch::jit::load(model_path, device);
  const auto photograph = load_pickle(photograph_path).toGenericDict();
  const at::Tensor noisy = photograph.at("noisy").toTensor();  // (1, 3, h, w)
  const at::Tensor clean = photograph.at("clean").toTensor();  // (1, 3, h, w)

  const c10::InferenceMode no_gradients;
  const at::Tensor denoised = model.forward({noisy.to(device)}).toTensor().cpu();
  std::printf("flower.jpg, noisy     %.4f dB\n", psnr(noisy, clean));
  std::printf("flower.jpg, denoised  %.4f dB\n", psnr(denoised, clean));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s denoiser.pt photograph.pt\n", argv[0]);
    return 2;
  }
  try {
    denoise(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
