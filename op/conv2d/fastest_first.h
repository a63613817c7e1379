// The order in which a family lists its plans.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace haloconv {

// Sorts plans by estimated_ms; those that are expected to take equally long stay in order. A plan
// is moved once: some have kilobytes of arguments.
template <class Plan>
void sort_fastest_first(std::vector<Plan>& plans) {
  std::vector<size_t> order(plans.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(plans[a].estimated_ms, a) < std::pair(plans[b].estimated_ms, b);
  });
  std::vector<Plan> sorted;
  sorted.reserve(plans.size());
  for (const size_t i : order) sorted.push_back(std::move(plans[i]));
  plans = std::move(sorted);
}

}  // namespace haloconv
