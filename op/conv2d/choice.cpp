#include "conv2d/choice.h"

#include <cmath>
#include <limits>
#include <ostream>
#include <sstream>
#include <utility>

#include "conv2d/aten_model.h"

namespace haloconv {

std::string_view name_of(Implementation implementation) {
  switch (implementation) {
    case Implementation::kSm90:
      return "sm90";
    case Implementation::kGeneric:
      return "generic";
    case Implementation::kAten:
      return "aten";
  }
  return "";
}

std::optional<Implementation> implementation_of(std::string_view name) {
  for (const Implementation implementation : kAllImplementations) {
    if (name == name_of(implementation)) return implementation;
  }
  return std::nullopt;
}

namespace {

constexpr size_t kSm90Plans = 8;       // that may be timed
constexpr double kTimingError = 0.02;  // of the shortest of some runs: benchmarks/NOTES.md

// Keeps the best few plans; the first's estimate is the candidate's.
template <class Plan>
void keep_best(std::vector<Plan> plans, std::vector<Plan>& kept, Candidate& candidate) {
  if (plans.empty()) {
    candidate.declined = "no tile with its halo fits in shared memory";
    return;
  }
  if (plans.size() > kSm90Plans) plans.resize(kSm90Plans);
  candidate.estimated_ms = plans.front().estimated_ms;
  kept = std::move(plans);
}

void consider_sm90(const Conv2dProblem& problem, Direction direction, const Device& device,
                   bool tf32, bool with_bias, Choice& choice, Candidate& candidate) {
  candidate.declined = sm90::declines(problem, direction, device);
  if (!candidate.declined.empty()) return;
  if (direction == Direction::kWgrad) {
    keep_best(sm90::wgrad::make_plans(problem, device, with_bias, tf32), choice.sm90_wgrad_plans,
              candidate);
  } else {
    keep_best(sm90::best_of_kinds(sm90::make_plans(problem, direction, device, tf32), kSm90Plans),
              choice.sm90_plans, candidate);
  }
}

void consider_generic(const Conv2dProblem& problem, Direction direction, const Device& device,
                      bool with_bias, Choice& choice, Candidate& candidate) {
  candidate.declined = generic_declines(problem, direction);
  if (!candidate.declined.empty()) return;
  choice.plan = plan_generic(problem, direction, device, with_bias);
  candidate.estimated_ms = choice.plan.estimated_ms;
  if (std::isinf(candidate.estimated_ms)) {
    candidate.declined = "every kernel needs a grid of more than 2^31 blocks";
  }
}

}  // namespace

Choice choose(const Conv2dProblem& problem, Direction direction, const Device& device,
              const Settings& settings, bool with_bias) {
  Choice choice;
  const Candidate* best = nullptr;
  choice.candidates.reserve(std::size(kAllImplementations));
  for (const Implementation implementation : kAllImplementations) {
    Candidate candidate{.implementation = implementation, .declined = ""};
    if (settings.forced && *settings.forced != implementation) {
      candidate.declined = "another implementation is forced";
    } else if (implementation == Implementation::kSm90) {
      consider_sm90(problem, direction, device, settings.tf32, with_bias, choice, candidate);
    } else if (implementation == Implementation::kGeneric) {
      consider_generic(problem, direction, device, with_bias, choice, candidate);
    } else {
      candidate.estimated_ms = estimate_aten_ms(problem, direction, device, settings.tf32);
    }
    choice.candidates.push_back(candidate);
    if (!candidate.declined.empty()) continue;
    if (best == nullptr || candidate.estimated_ms < best->estimated_ms) {
      best = &choice.candidates.back();
    }
  }
  if (best != nullptr) choice.chosen = best->implementation;
  return choice;
}

std::string Choice::describe_sm90_plan(size_t index) const {
  std::ostringstream text;
  if (sm90_plans.empty()) {
    text << sm90_wgrad_plans[index];
  } else {
    text << sm90_plans[index];
  }
  return text.str();
}

std::optional<size_t> fastest_of(const std::vector<Timed>& timed) {
  std::optional<size_t> fastest;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < timed.size(); ++i) {
    const bool is_aten = timed[i].implementation == Implementation::kAten;
    const double ms = timed[i].ms * (is_aten ? 1 - kTimingError : 1);
    if (ms < least) {
      least = ms;
      fastest = i;
    }
  }
  return fastest;
}

std::ostream& operator<<(std::ostream& os, const Choice& choice) {
  os << "implementation: " << (choice.chosen ? name_of(*choice.chosen) : "none") << '\n';
  for (const Candidate& candidate : choice.candidates) {
    os << "  " << name_of(candidate.implementation) << ": ";
    if (!candidate.declined.empty()) {
      os << "declined, " << candidate.declined;
    } else {
      os << "expected " << candidate.estimated_ms << " ms";
      if (candidate.implementation == Implementation::kSm90) {
        os << ", " << choice.describe_sm90_plan(0);
      } else if (candidate.implementation == Implementation::kGeneric) {
        os << ", " << choice.plan;
      }
    }
    os << '\n';
  }
  return os;
}

}  // namespace haloconv
