#include "registration/library.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>

#include <cstdio>
#include <filesystem>

#include "registration/torch_compat/versions.h"

namespace haloconv {
namespace {

std::string reason() {
  Dl_info here{};
  dladdr(reinterpret_cast<void*>(&why_idle), &here);
  const std::string file =
      here.dli_fname ? std::filesystem::path(here.dli_fname).lexically_normal().string() : "?";
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
    // Not by torch's warnings, which another torch may not have.
    if (!text.empty()) std::fprintf(stderr, "Warning: %s\n", text.c_str());
    return text;
  }();
  return why;
}

Registered::Registered(torch::Library::Kind kind, std::optional<c10::DispatchKey> key,
                       const char* file, uint32_t line, void (*registers)(torch::Library&)) {
  if (!why_idle().empty()) return;
  registers(library_.emplace(kind, "haloconv", key, file, line));
}

}  // namespace haloconv
