// The plans of the families in the list, for tests of whatever families there are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "conv2d/families.h"

namespace haloconv::testing {

struct FamilyPlan {
  const Family* family;
  PlanPointer plan;

  void launch(const Operands& operands) const { family->launch(*plan, operands, nullptr); }
  bool says(std::string_view word) const { return plan->text().find(word) != std::string::npos; }
};

inline std::ostream& operator<<(std::ostream& os, const FamilyPlan& of) {
  return os << of.family->name << ' ' << of.plan->text();
}

// The plans that the families of a group, or the family of that name, would have timed.
inline std::vector<FamilyPlan> timed_plans_of(std::string_view name, const Request& request) {
  std::vector<FamilyPlan> plans;
  for (const Family* family : families()) {
    if (name != family->group && name != family->name) continue;
    for (const PlanPointer& plan : family->ask(request).plans) plans.push_back({family, plan});
  }
  return plans;
}

// Every plan that they have.
inline std::vector<FamilyPlan> plans_of(std::string_view name, Request request) {
  request.every_plan = true;
  return timed_plans_of(name, request);
}

}  // namespace haloconv::testing
