#include "registration/conv2d/force.h"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "conv2d/choice.h"
#include "conv2d/families.h"
#include "registration/library.h"

namespace haloconv {
namespace {

constexpr std::string_view kAuto = "auto";

thread_local Forced of_this_thread;

std::string force_implementation(c10::string_view name) {
  return std::string(name_of_forced(std::exchange(of_this_thread, forced_by_name(name))));
}

HALOCONV_IMPLEMENT(CompositeImplicitAutograd, m) {
  m.impl("force_implementation", &force_implementation);
}

}  // namespace

Forced forced_implementation() { return of_this_thread; }

Forced forced_by_name(std::string_view name) {
  static const std::vector<std::string_view> names = forceable_names(families());
  if (name == kAuto) return {};
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    std::ostringstream known;
    known << kAuto;
    for (const std::string_view each : names) known << ", " << each;
    TORCH_CHECK(false, "haloconv::force_implementation: expected name to be one of ", known.str(),
                ", but got \"", name, "\"");
  }
  return *found;
}

std::string_view name_of_forced(Forced forced) { return forced.empty() ? kAuto : forced; }

ForceInThread::ForceInThread(Forced forced) : previous_(std::exchange(of_this_thread, forced)) {}

ForceInThread::~ForceInThread() { of_this_thread = previous_; }

}  // namespace haloconv
