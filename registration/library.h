// How the files of this folder register operators: as torch's TORCH_LIBRARY macros do, unless the
// library has a reason to stay idle, which it then says on stderr. It does not throw: torch throws
// at a second definition, and an exception that leaves a library's loading ends the process.
#pragma once

#include <torch/library.h>

#include <optional>
#include <string>

namespace haloconv {

// Why nothing is registered, or "": the loaded torch is not the one that the library was built
// with, or another copy of libhaloconv.so has registered already; the C++ functions then call that
// copy's operators. The first call prints the reason.
const std::string& why_idle();

// What `registers` registers, for as long as the process lives; nothing if the library is idle.
// Another torch may lack functions that a torch::Library calls, so then none is made.
class Registered {
 public:
  Registered(torch::Library::Kind kind, std::optional<c10::DispatchKey> key, const char* file,
             uint32_t line, void (*registers)(torch::Library&));

 private:
  std::optional<torch::Library> library_;
};

}  // namespace haloconv

// HALOCONV_DEFINE(m) { m.def(…); } and HALOCONV_IMPLEMENT(CPU, m) { m.impl(…); }, inside namespace
// haloconv.
#define HALOCONV_DEFINE(m) HALOCONV_REGISTER(FRAGMENT, std::nullopt, m, C10_UID)
#define HALOCONV_IMPLEMENT(key, m) HALOCONV_REGISTER(IMPL, c10::DispatchKey::key, m, C10_UID)
#define HALOCONV_REGISTER(kind, key, m, id) HALOCONV_REGISTER_AS(kind, key, m, id)
#define HALOCONV_REGISTER_AS(kind, key, m, id)                                                    \
  static void haloconv_register_##id(torch::Library&);                                            \
  static const Registered haloconv_registered_##id(torch::Library::kind, key, __FILE__, __LINE__, \
                                                   &haloconv_register_##id);                      \
  void haloconv_register_##id(torch::Library& m)
