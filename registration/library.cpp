#include "registration/library.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>

namespace haloconv {

bool is_first_copy() {
  static const bool first = [] {
    if (!c10::Dispatcher::singleton().findSchema({"haloconv::conv2d", ""})) return true;
    Dl_info here{};
    dladdr(reinterpret_cast<void*>(&is_first_copy), &here);
    TORCH_WARN(
        "haloconv: another copy of libhaloconv.so is loaded, and its operators stay; this "
        "one, version " HALOCONV_VERSION " of ",
        here.dli_fname ? here.dli_fname : "?",
        ", registers none. Load one file only, and from one path.");
    return false;
  }();
  return first;
}

}  // namespace haloconv
