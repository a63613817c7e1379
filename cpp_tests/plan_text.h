// A planner's own plans as text, so that lists of them can be compared.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace haloconv::testing {

template <class Plan>
std::string text_of(const Plan& plan) {
  std::ostringstream text;
  text << plan << ' ' << plan.estimated_ms;
  return text.str();
}

template <class Plan>
std::vector<std::string> texts_of(const std::vector<Plan>& plans) {
  std::vector<std::string> texts;
  for (const Plan& plan : plans) texts.push_back(text_of(plan));
  return texts;
}

}  // namespace haloconv::testing
