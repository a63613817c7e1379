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

  explicit BestOfGroups(size_t count) : count_(count) {
    if (count != kAll) best_.reserve(count);
  }

  // A plan of more milliseconds is none of those to keep.
  double most_ms() const {
    return best_.size() < count_ ? std::numeric_limits<double>::infinity() : best_.back().ms;
  }
  // Nor is one of this group.
  double most_ms(int group) const {
    const size_t last = last_of(group);
    return last < best_.size() ? best_[last].ms : most_ms();
  }
  void add(double ms, int group) {
    if (count_ == kAll) return;
    size_t place = last_of(group);
    if (place == best_.size() && place < count_) {
      best_.emplace_back();
    } else {
      place = std::min(place, best_.size() - 1);
      if (ms >= best_[place].ms) return;
    }
    for (; place > 0 && ms < best_[place - 1].ms; --place) best_[place] = best_[place - 1];
    best_[place] = {ms, group};
  }

 private:
  struct Estimate {
    double ms;
    int group;
  };

  // The place of a group's last, if these are as many as there may be; the end if they are fewer.
  size_t last_of(int group) const {
    size_t place = 0;
    for (int of_group = 0; place < best_.size(); ++place) {
      if (best_[place].group == group && ++of_group == kPlansOfGroup) break;
    }
    return place;
  }

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
