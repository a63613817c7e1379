#include "registration/conv2d/force.h"

#include <atomic>
#include <sstream>
#include <string>

#include "registration/library.h"

namespace haloconv {
namespace {

constexpr std::string_view kAuto = "auto";

std::atomic<std::optional<Implementation>> forced;

std::string force_implementation(c10::string_view name) {
  const auto implementation = implementation_of(name);
  if (!implementation && name != kAuto) {
    std::ostringstream names;
    names << kAuto;
    for (const Implementation known : kAllImplementations) names << ", " << name_of(known);
    TORCH_CHECK(false, "haloconv::force_implementation: expected name to be one of ", names.str(),
                ", but got \"", name, "\"");
  }
  const auto previous = forced.exchange(implementation);
  return std::string(previous ? name_of(*previous) : kAuto);
}

HALOCONV_IMPLEMENT(CompositeImplicitAutograd, m) {
  m.impl("force_implementation", &force_implementation);
}

}  // namespace

std::optional<Implementation> forced_implementation() {
  return forced.load(std::memory_order_relaxed);
}

}  // namespace haloconv
