// Plans as text: to say which one a test is at, and to compare lists of them.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace haloconv::testing {

// With the problem, or the shape, that it is of.
template <class Problem, class Plan>
std::string text_of(const Problem& of, const Plan& plan) {
  std::ostringstream text;
  text << of << " | " << plan;
  return text.str();
}

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
