// A program that was built knowing nothing of haloconv: it loads the library while it runs, then a
// saved model that holds its operators, and gives it the tensor in one file to write what it
// computes to another, both as torch.save and torch.load have them.

#include <dlfcn.h>
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

void run(const char* library, const char* model, const char* input, const char* output) {
  TORCH_CHECK(dlopen(library, RTLD_NOW) != nullptr, dlerror());
  torch::jit::Module module = torch::jit::load(model);
  const c10::InferenceMode no_gradients;
  save_pickle(module.forward({load_pickle(input)}), output);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s LIBRARY MODEL.pt INPUT.pt OUTPUT.pt\n", argv[0]);
    return 1;
  }
  try {
    run(argv[1], argv[2], argv[3], argv[4]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
