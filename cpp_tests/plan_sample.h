// Which of a problem's plans a test runs: all. Under a sanitizer, which takes many times as long,
// HALOCONV_EVERY_NTH_PLAN=n makes it the first of each kind and every n-th.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "conv2d/families/halo/plan.h"
#include "conv2d/families/wgrad/plan.h"

namespace haloconv::testing {

class PlanSample {
 public:
  PlanSample() {
    const char* const n = std::getenv("HALOCONV_EVERY_NTH_PLAN");
    if (n != nullptr && std::atoll(n) > 0) every_ = std::atoll(n);
  }

  // Whether the next plan is one of them.
  template <class Plan>
  bool takes(const Plan& plan) {
    const bool is_nth = next_++ % every_ == 0;
    return kinds_.insert(kind_of(plan)).second || is_nth;
  }

 private:
  // What kernel runs, and which of its ways through the loads and the results.
  static std::string kind_of(const sm90::Plan& plan) {
    if (plan.scatter) return "scatter";
    if (plan.pointwise) return kind_of(plan.pointwise->tile);
    const sm90::Tile& tile = plan.tile;
    const bool is_line = !tile.strips && tile.images * tile.rows == 1;
    std::string kind = std::to_string(tile.instructions) + 'x' + std::to_string(tile.width);
    if (plan.precise) kind += " precise";
    if (tile.strips) kind += " strips";
    if (is_line) kind += " line";
    if (plan.splits > 1) kind += " splits";
    if (plan.fold > 1) kind += plan.fold_columns ? " fold of columns" : " fold";
    return kind;
  }
  static std::string kind_of(const sm90::pointwise::Tile& tile) {
    return "pointwise " + std::to_string(tile.rows) + 'x' + std::to_string(tile.columns);
  }
  static std::string kind_of(const sm90::wgrad::Plan& plan) {
    if (plan.pointwise) return kind_of(plan.pointwise->tile);
    std::string kind =
        std::to_string(plan.instance.slots) + 'x' + std::to_string(plan.instance.width);
    if (plan.precise) kind += " precise";
    if (plan.boxes) kind += " boxes";
    if (plan.walk_rows > 0) kind += " turns";
    return kind;
  }

  int64_t every_ = 1, next_ = 0;
  std::set<std::string> kinds_;
};

}  // namespace haloconv::testing
