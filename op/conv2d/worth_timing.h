// Which plans of a family choose() may take, so that a family with many need not list all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace haloconv {

// How many plans of a group may be timed: the best of each kind first, then others.
inline constexpr size_t kMostOfGroup = 8;

// A family tells it the kind of each of its plans, the fastest plan first, and hears whether to
// list that plan.
class WorthTiming {
 public:
  // With `every`, all plans are listed.
  explicit WorthTiming(bool every) : every_(every) {}

  // Whether the next plan, of this kind, is the best of its kind or one of the first others.
  bool next(int64_t kind) {
    if (every_) return true;
    if (std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end()) {
      return ++others_ <= kMostOfGroup;
    }
    kinds_.push_back(kind);
    return true;
  }

 private:
  bool every_;
  std::vector<int64_t> kinds_;  // of the plans so far
  size_t others_ = 0;
};

}  // namespace haloconv
