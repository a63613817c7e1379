// Which of many plans are kept: the best of each kind, for the model errs by kind, and if that
// leaves room, further ones. A kind whose best is far from the best of all is not kept for its own
// sake.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace haloconv::halo {

// Times the best of all: a plan that takes longer is not kept for its kind's sake alone.
inline constexpr double kHopelessKind = 1.3;

// Estimates as they come, and what they leave open.
class BestOfKinds {
 public:
  static constexpr size_t kAll = std::numeric_limits<size_t>::max();

  explicit BestOfKinds(size_t count) : count_(count) {
    if (count == kAll) return;
    kinds_.reserve(count);
    plans_.reserve(count);
  }

  size_t count() const { return count_; }

  // A plan that takes longer is none of those to keep: the bests of enough other kinds are faster;
  // or enough plans are, and its own kind's best is or it is not kept for its kind's sake.
  double most_ms(int kind) const {
    return std::max(last_plan_ms_, std::min(last_kind_ms_, best_of(kind))) * (1 + kRounding);
  }
  // The same of a plan of any kind.
  double most_ms() const { return last_kind_ms_ * (1 + kRounding); }
  void add(double ms, int kind) {
    if (count_ == kAll) return;
    insert({ms, kind}, plans_.size(), plans_);
    if (ms < best_of(kind)) {
      if (kind >= std::ssize(bests_)) bests_.resize(kind + 1, kNone);
      bests_[kind] = ms;
      size_t place = 0;
      while (place < kinds_.size() && kinds_[place].kind != kind) ++place;
      insert({ms, kind}, place, kinds_);
    }
    last_plan_ms_ = last_of(plans_);
    last_kind_ms_ =
        std::min(last_of(kinds_), std::max(last_plan_ms_, kHopelessKind * plans_.front().ms));
  }

 private:
  struct Estimate {
    double ms;
    int kind;
  };
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  static constexpr double kRounding = 1e-9;  // sums are added up in another order

  double last_of(const std::vector<Estimate>& sorted) const {
    return sorted.size() < count_ ? kNone : sorted.back().ms;
  }
  double best_of(int kind) const { return kind < std::ssize(bests_) ? bests_[kind] : kNone; }
  // In place of the one at `place`, which is not faster; at the end, of the last if they are
  // enough.
  void insert(const Estimate& estimate, size_t place, std::vector<Estimate>& sorted) {
    if (place == count_) {
      if (estimate.ms >= sorted.back().ms) return;
      --place;
    } else if (place == sorted.size()) {
      sorted.push_back(estimate);
    }
    for (; place > 0 && estimate.ms < sorted[place - 1].ms; --place) {
      sorted[place] = sorted[place - 1];
    }
    sorted[place] = estimate;
  }

  size_t count_;
  std::vector<Estimate> kinds_, plans_;  // the fastest `count` kinds, by their bests, and plans
  std::vector<double> bests_;            // by kind
  // Of plans that are kept: of any, and of those that are kept for their kind's sake.
  double last_plan_ms_ = kNone, last_kind_ms_ = kNone;
};

// Of plans, the fastest first, at most so many. A plan has estimated_ms and kind. The first stays
// the first.
template <class Plan>
std::vector<Plan> best_of_kinds(const std::vector<Plan>& plans, size_t count) {
  std::vector<Plan> firsts, others;
  firsts.reserve(plans.size());
  others.reserve(plans.size());
  for (const Plan& plan : plans) {
    const bool is_known = std::any_of(firsts.begin(), firsts.end(),
                                      [&](const Plan& first) { return first.kind == plan.kind; });
    const bool is_hopeless = plan.estimated_ms > kHopelessKind * plans.front().estimated_ms;
    (is_known || is_hopeless ? others : firsts).push_back(plan);
  }
  firsts.insert(firsts.end(), others.begin(), others.end());
  if (firsts.size() > count) firsts.resize(count);
  return firsts;
}

}  // namespace haloconv::halo
