// A program that was built knowing nothing of haloconv: it loads the library while it runs, then a
// saved model that holds its operators, and prints the sum of the model's result.

#include <ATen/ops/ones.h>
#include <dlfcn.h>
#include <torch/script.h>

#include <cstdio>
#include <exception>

namespace {

double run(const char* library, const char* model_path) {
  TORCH_CHECK(dlopen(library, RTLD_NOW) != nullptr, dlerror());
  torch::jit::Module model = torch::jit::load(model_path);
  const c10::InferenceMode no_gradients;
  return model.forward({at::ones({1, 3, 8, 8})}).toTensor().sum().item<double>();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s LIBRARY MODEL.pt\n", argv[0]);
    return 1;
  }
  try {
    std::printf("%.17g\n", run(argv[1], argv[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
