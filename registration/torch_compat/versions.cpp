#include "registration/torch_compat/versions.h"

#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <cstdint>

#if HALOCONV_HAS_CUDA
#include <ATen/detail/CUDAHooksInterface.h>
#endif

namespace haloconv {
namespace {

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
  if (loaded != TORCH_VERSION) {
    return "it was built with torch " TORCH_VERSION ", but the torch that is loaded is " + loaded +
           ". Install torch==" TORCH_VERSION ", or build haloconv with the torch that you use.";
  }
#if HALOCONV_HAS_CUDA
  const int64_t major = at::detail::getCUDAHooks().versionCUDART() / 1000;
  if (major != HALOCONV_CUDA_MAJOR) {
    return "it was built with CUDA " + std::to_string(HALOCONV_CUDA_MAJOR) +
           ", but the torch that is loaded with CUDA " + std::to_string(major) +
           ". Install a torch of the same CUDA version, or build haloconv with the torch that you "
           "use and its CUDA toolkit.";
  }
#endif
  return "";
}

}  // namespace haloconv
