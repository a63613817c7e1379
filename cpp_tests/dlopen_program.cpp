// A program that was built knowing nothing of haloconv: it loads the library while it runs, then a
// saved model that holds its operators, TorchScript or a package of AOTInductor's, and gives it the
// tensor in one file to write what it computes to another, both as torch.save and torch.load have
// them.

#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/script.h>
#include <torch/serialize.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

at::IValue load_pickle(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "cannot open ", path);
  return torch::pickle_load(std::vector<char>(std::istreambuf_iterator<char>(file), {}));
}

void save_pickle(const at::IValue& value, const std::string& path) {
  const std::vector<char> bytes = torch::pickle_save(value);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  TORCH_CHECK(file.flush(), "cannot write ", path);
}

at::IValue run(const std::string& model, const at::Tensor& input) {
  const c10::InferenceMode no_gradients;
  if (model.ends_with(".pt2")) return torch::inductor::AOTIModelPackageLoader(model).run({input});
  return torch::jit::load(model).forward({input});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s LIBRARY MODEL INPUT.pt OUTPUT.pt\n", argv[0]);
    return 1;
  }
  try {
    TORCH_CHECK(dlopen(argv[1], RTLD_NOW) != nullptr, dlerror());
    save_pickle(run(argv[2], load_pickle(argv[3]).toTensor()), argv[4]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
