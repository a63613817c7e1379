// The dispatcher's handle of a registered operator.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "registration/library.h"

namespace haloconv {

template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name, const char* overload = "") {
  const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  TORCH_CHECK(found.has_value(), name, ": the operator is not registered; ", why_idle());
  return found->typed<Signature>();
}

}  // namespace haloconv
