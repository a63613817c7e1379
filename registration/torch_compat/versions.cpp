#include "registration/torch_compat/versions.h"

#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <cstdint>
#include <string>

#if HALOCONV_HAS_CUDA
#include <ATen/detail/CUDAHooksInterface.h>
#endif

namespace haloconv {
namespace {

#define QUOTED(number) #number
#define AS_TEXT(number) QUOTED(number)
#define TORCH_MINOR AS_TEXT(TORCH_VERSION_MAJOR) "." AS_TEXT(TORCH_VERSION_MINOR)
#if HALOCONV_HAS_CUDA
#define CUDA_MAJOR AS_TEXT(HALOCONV_CUDA_MAJOR)
#else
#define CUDA_MAJOR "none"
#endif

// Python looks for it in the file before it loads it.
[[gnu::used]] const char built_for[] =
    "haloconv is built for torch " TORCH_MINOR ", CUDA " CUDA_MAJOR ";";

// A byte each of major, minor and patch, first of all.
std::string text_of(uint64_t version) {
  const auto number = [&](int shift) { return std::to_string(version >> shift & 0xff); };
  return number(56) + '.' + number(48) + '.' + number(40);
}

// Of the torch that is loaded; looked up by name, for not every older release has it.
std::string loaded_torch() {
  using Version = uint64_t (*)();
  const auto version = reinterpret_cast<Version>(dlsym(RTLD_DEFAULT, "aoti_torch_abi_version"));
  return version != nullptr ? text_of(version()) : "an older release";
}

}  // namespace

std::string torch_mismatch() {
  const std::string loaded = loaded_torch();
  if (loaded.rfind(TORCH_MINOR ".", 0) != 0) {
    return "it was built for torch " TORCH_MINOR ", but the torch that is loaded is " + loaded +
           ". Install torch " TORCH_MINOR ", or build haloconv with the torch that you use.";
  }
#if HALOCONV_HAS_CUDA
  const long major = loaded_cuda() / 1000;
  if (major != HALOCONV_CUDA_MAJOR) {
    const std::string found = major == 0 ? "has no CUDA" : "is for CUDA " + std::to_string(major);
    return "it was built for a torch of CUDA " CUDA_MAJOR ", but the torch that is loaded " +
           found +
           ". Install a torch of CUDA " CUDA_MAJOR
           ", or build haloconv with the torch that you use.";
  }
#endif
  return "";
}

long loaded_cuda() {
#if HALOCONV_HAS_CUDA
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  if (hooks.hasCUDART()) return hooks.versionCUDART();
#endif
  return 0;
}

long loaded_cudnn() {
#if HALOCONV_HAS_CUDA
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  if (hooks.hasCuDNN()) return hooks.versionRuntimeCuDNN();
#endif
  return 0;
}

}  // namespace haloconv
