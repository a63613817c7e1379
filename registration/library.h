// How the files of this folder register: as torch's TORCH_LIBRARY macros do, unless the library has
// a reason to stay idle, which it then says on stderr. An exception would end the process: that is
// what torch makes of a second definition, and the system of one that leaves a library's loading.
#pragma once

#include <torch/library.h>

#include <string>

namespace haloconv {

// Why nothing is registered: torch is another one than the library was built with, or another copy
// of libhaloconv.so had registered before, whose operators the C++ functions then call. "" where
// all is well. Warns once.
const std::string& why_idle();

}  // namespace haloconv

// HALOCONV_DEFINE(m) { m.def(…); } and HALOCONV_IMPLEMENT(CPU, m) { m.impl(…); }, inside namespace
// haloconv.
#define HALOCONV_DEFINE(m)                      \
  static void haloconv_define(torch::Library&); \
  TORCH_LIBRARY_FRAGMENT(haloconv, m) {         \
    if (why_idle().empty()) haloconv_define(m); \
  }                                             \
  void haloconv_define(torch::Library& m)

#define HALOCONV_IMPLEMENT(key, m)                       \
  static void haloconv_implement_##key(torch::Library&); \
  TORCH_LIBRARY_IMPL(haloconv, key, m) {                 \
    if (why_idle().empty()) haloconv_implement_##key(m); \
  }                                                      \
  void haloconv_implement_##key(torch::Library& m)
