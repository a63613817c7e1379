#include "registration/library.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>

#include "registration/torch_compat/versions.h"

namespace haloconv {
namespace {

std::string reason() {
  Dl_info here{};
  dladdr(reinterpret_cast<void*>(&why_idle), &here);
  const std::string file = here.dli_fname ? here.dli_fname : "?";
  const std::string mismatch = torch_mismatch();
  if (!mismatch.empty()) {
    return "haloconv: " + file +
           ", version " HALOCONV_VERSION ", registers no operators: " + mismatch;
  }
  if (c10::Dispatcher::singleton().findSchema({"haloconv::conv2d", ""})) {
    return "haloconv: another copy of libhaloconv.so is loaded, and its operators stay; this one, "
           "version " HALOCONV_VERSION " of " +
           file + ", registers none. Load one file only, and from one path.";
  }
  return "";
}

}  // namespace

const std::string& why_idle() {
  static const std::string why = [] {
    std::string text = reason();
    if (!text.empty()) TORCH_WARN(text);
    return text;
  }();
  return why;
}

}  // namespace haloconv
