#include "registration/conv2d/force.h"

#include <algorithm>
#include <atomic>
#include <sstream>
#include <string>
#include <vector>

#include "conv2d/choice.h"
#include "conv2d/families.h"
#include "registration/library.h"

namespace haloconv {
namespace {

constexpr std::string_view kAuto = "auto";

const std::vector<std::string_view>& names() {
  static const std::vector<std::string_view> all = forceable_names(families());
  return all;
}

constexpr int kNone = -1;
std::atomic<int> forced = kNone;  // an index of names()

std::string_view name_of(int index) { return index == kNone ? kAuto : names()[index]; }

std::string force_implementation(c10::string_view name) {
  const auto found = std::find(names().begin(), names().end(), name);
  if (found == names().end() && name != kAuto) {
    std::ostringstream known;
    known << kAuto;
    for (const std::string_view each : names()) known << ", " << each;
    TORCH_CHECK(false, "haloconv::force_implementation: expected name to be one of ", known.str(),
                ", but got \"", name, "\"");
  }
  const auto index = static_cast<int>(found - names().begin());
  return std::string(name_of(forced.exchange(name == kAuto ? kNone : index)));
}

HALOCONV_IMPLEMENT(CompositeImplicitAutograd, m) {
  m.impl("force_implementation", &force_implementation);
}

}  // namespace

std::string_view forced_implementation() {
  const int index = forced.load(std::memory_order_relaxed);
  return index == kNone ? std::string_view() : names()[index];
}

}  // namespace haloconv
