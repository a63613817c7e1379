// Which of a problem's plans a test runs: all. Under a sanitizer, which takes many times as long,
// HALOCONV_EVERY_NTH_PLAN=n makes it the first of each kind and every n-th.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "cpp_tests/family_plans.h"

namespace haloconv::testing {

class PlanSample {
 public:
  PlanSample() {
    const char* const n = std::getenv("HALOCONV_EVERY_NTH_PLAN");
    if (n != nullptr && std::atoll(n) > 0) every_ = std::atoll(n);
  }

  // Whether the next plan is one of them.
  bool takes(const FamilyPlan& of) {
    const bool is_nth = next_++ % every_ == 0;
    return kinds_.insert(kind_of(of)).second || is_nth;
  }

 private:
  // What kernel runs, and which of its ways through the loads and the results.
  static std::string kind_of(const FamilyPlan& of) {
    std::string kind = std::string(of.family->name) + ' ' + std::to_string(of.plan->kind);
    for (const char* way : {"precise", "splits", "boxes", "interleaved"}) {
      if (of.says(way)) kind.append(" ").append(way);
    }
    return kind;
  }

  int64_t every_ = 1, next_ = 0;
  std::set<std::string> kinds_;
};

}  // namespace haloconv::testing
