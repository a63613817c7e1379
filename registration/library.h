// How the files of this folder register: as torch's TORCH_LIBRARY macros do, unless another copy of
// libhaloconv.so is loaded. torch would end the process over a second definition; so the second
// copy says on stderr that it stays idle, and its C++ functions call the first one's operators.
#pragma once

#include <torch/library.h>

namespace haloconv {

// Whether no other copy had registered when this one began to. Warns once if one had.
bool is_first_copy();

}  // namespace haloconv

// HALOCONV_DEFINE(m) { m.def(…); } and HALOCONV_IMPLEMENT(CPU, m) { m.impl(…); }, inside namespace
// haloconv.
#define HALOCONV_DEFINE(m)                      \
  static void haloconv_define(torch::Library&); \
  TORCH_LIBRARY_FRAGMENT(haloconv, m) {         \
    if (is_first_copy()) haloconv_define(m);    \
  }                                             \
  void haloconv_define(torch::Library& m)

#define HALOCONV_IMPLEMENT(key, m)                       \
  static void haloconv_implement_##key(torch::Library&); \
  TORCH_LIBRARY_IMPL(haloconv, key, m) {                 \
    if (is_first_copy()) haloconv_implement_##key(m);    \
  }                                                      \
  void haloconv_implement_##key(torch::Library& m)
