// Runs a network that AOTInductor compiled, on the digits that examples/python/package.py saved
// beside it. No Python and no TorchScript is involved: the package holds machine code, which calls
// haloconv::conv2d by name, and linking haloconv::haloconv registers it.

#include <c10/core/InferenceMode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>
#include <exception>
#include <string>

#include "load_pickle.h"

namespace {

// Python ran the network uncompiled; compiled, it may add in another order, and on a GPU round to
// TF32 elsewhere.
constexpr double kMaxDifference = 1e-2;

void run(const std::string& package_path, const std::string& digits_path) {
  torch::inductor::AOTIModelPackageLoader package(package_path);
  const auto digits = load_pickle(digits_path).toGenericDict();
  const at::Tensor images = digits.at("images").toTensor();    // (n, 1, 8, 8)
  const at::Tensor labels = digits.at("labels").toTensor();    // (n)
  const at::Tensor expected = digits.at("scores").toTensor();  // (n, 10)
  const at::Device device(digits.at("device").toStringRef());

  const c10::InferenceMode no_gradients;
  const at::Tensor scores = package.run({images.to(device)}).at(0).cpu();
  const at::Tensor right = scores.argmax(1) == labels;
  std::printf("C++, packaged       %.2f%% of %lld digits\n",
              100 * right.to(at::kDouble).mean().item<double>(),
              static_cast<long long>(labels.size(0)));
  const double difference = ((scores - expected).norm() / expected.norm()).item<double>();
  std::printf("relative difference %.1e\n", difference);
  TORCH_CHECK(difference <= kMaxDifference, "the scores differ from Python's");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s digits.pt2 digits.pt\n", argv[0]);
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
