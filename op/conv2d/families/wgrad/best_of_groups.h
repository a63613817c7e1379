// Which of many plans are kept: the fastest, but of each group at most kPlansOfGroup, since a
// group's plans are much alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace haloconv::wgrad {

inline constexpr int kPlansOfGroup = 3;

// Estimates as they come, and what they leave open.
class BestOfGroups {
 public:
  static constexpr size_t kAll = std::numeric_limits<size_t>::max();

  explicit BestOfGroups(size_t count) : count_(count) {}

  // A plan of more milliseconds is none of those to keep.
  double most_ms() const {
    return best_.size() < count_ ? std::numeric_limits<double>::infinity() : best_.back().ms;
  }
  void add(double ms, int group) {
    if (count_ == kAll) return;
    const auto at =
        std::upper_bound(best_.begin(), best_.end(), ms,
                         [](double value, const Estimate& other) { return value < other.ms; });
    best_.insert(at, {ms, group});
    int of_group = 0;
    for (auto it = best_.begin(); it != best_.end(); ++it) {
      if (it->group != group || ++of_group <= kPlansOfGroup) continue;
      best_.erase(it);
      break;
    }
    if (best_.size() > count_) best_.pop_back();
  }

 private:
  struct Estimate {
    double ms;
    int group;
  };

  size_t count_;
  std::vector<Estimate> best_;  // sorted
};

// Of plans, the fastest first, at most so many. A plan has a group.
template <class Plan>
std::vector<Plan> best_of_groups(const std::vector<Plan>& plans, size_t count) {
  std::vector<Plan> best;
  for (const Plan& plan : plans) {
    if (best.size() == count) break;
    const auto same = std::count_if(best.begin(), best.end(),
                                    [&](const Plan& other) { return other.group == plan.group; });
    if (same < kPlansOfGroup) best.push_back(plan);
  }
  return best;
}

}  // namespace haloconv::wgrad
