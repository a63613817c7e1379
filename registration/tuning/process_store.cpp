#include "registration/tuning/process_store.h"

#include <c10/util/Exception.h>
#include <c10/util/env.h>
#include <torch/version.h>

#include <cstdlib>
#include <string>

#include "registration/torch_compat/versions.h"

#if HALOCONV_HAS_CUDA
#include "chip/chip_of_device.h"
#endif

namespace haloconv::tuning {
namespace {

// "13.0" for 13000, "9.15.1" for 91501: CUDA and cuDNN number their versions in different ways.
[[maybe_unused]] std::string cuda_version(long number) {
  return std::to_string(number / 1000) + '.' + std::to_string(number % 1000 / 10);
}

[[maybe_unused]] std::string cudnn_version(long number) {
  return std::to_string(number / 10000) + '.' + std::to_string(number % 10000 / 100) + '.' +
         std::to_string(number % 100);
}

// None of this starts CUDA: a process that loads results may fork later.
Environment versions() {
  Environment here = {.haloconv = HALOCONV_VERSION,
                      .torch = TORCH_VERSION,
                      .cuda_driver = "none",
                      .cuda_runtime = "none",
                      .cudnn = "none",
                      .device = ""};
#if HALOCONV_HAS_CUDA
  if (const int driver = driver_version(); driver != 0) here.cuda_driver = cuda_version(driver);
  here.cuda_runtime = cuda_version(loaded_cuda());
  if (const long cudnn = loaded_cudnn(); cudnn != 0) here.cudnn = cudnn_version(cudnn);
#endif
  return here;
}

void warn(const std::string& text) { TORCH_WARN(text); }

Store* make_store() {
  const std::string file = c10::utils::get_env("HALOCONV_TUNING_FILE").value_or("");
  if (!file.empty()) std::atexit([] { process_store().flush(); });
  return new Store({.here = versions(), .file = file, .warn = &warn});
}

}  // namespace

Store& process_store() {
  static Store* const store = make_store();
  return *store;
}

}  // namespace haloconv::tuning
