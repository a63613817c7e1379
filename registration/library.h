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
#define HALOCONV_DEFINE(m) HALOCONV_DEFINE_BY(m, C10_CONCATENATE(haloconv_define_, C10_UID))
#define HALOCONV_DEFINE_BY(m, define)   \
  static void define(torch::Library&);  \
  TORCH_LIBRARY_FRAGMENT(haloconv, m) { \
    if (why_idle().empty()) define(m);  \
  }                                     \
  void define(torch::Library& m)

#define HALOCONV_IMPLEMENT(key, m) \
  HALOCONV_IMPLEMENT_BY(key, m, C10_CONCATENATE(haloconv_implement_, C10_UID))
#define HALOCONV_IMPLEMENT_BY(key, m, implement) \
  static void implement(torch::Library&);        \
  TORCH_LIBRARY_IMPL(haloconv, key, m) {         \
    if (why_idle().empty()) implement(m);        \
  }                                              \
  void implement(torch::Library& m)
