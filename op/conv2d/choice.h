// Which implementation runs a problem on a CUDA device. Pure host functions.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conv2d/families/generic/plan.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/families/wgrad/plan.h"
#include "conv2d/problem.h"

namespace haloconv {

// In the order in which they are asked. kAten is the convolution that PyTorch itself would run,
// on the caller's side of op/: it takes every problem.
enum class Implementation { kSm90, kGeneric, kAten };

inline constexpr Implementation kAllImplementations[] = {
    Implementation::kSm90, Implementation::kGeneric, Implementation::kAten};

std::string_view name_of(Implementation implementation);
std::optional<Implementation> implementation_of(std::string_view name);

// What the user's settings allow.
struct Settings {
  bool tf32 = true;                                     // float32 products may be rounded to TF32
  std::optional<Implementation> forced = std::nullopt;  // only this one may run
};

struct Candidate {
  Implementation implementation;
  std::string declined;     // why it does not take the problem, or ""
  double estimated_ms = 0;  // where it takes it
};

struct Choice {
  std::optional<Implementation> chosen;  // none: the forced one declined
  std::vector<Candidate> candidates;     // in order
  // Of kSm90, where it took the problem: the best few, of fprop and dgrad or of wgrad.
  std::vector<sm90::Plan> sm90_plans;
  std::vector<sm90::wgrad::Plan> sm90_wgrad_plans;
  Conv2dPlan plan;  // of kGeneric, where it took the problem

  size_t sm90_plan_count() const { return sm90_plans.size() + sm90_wgrad_plans.size(); }
  std::string describe_sm90_plan(size_t index) const;
};

// The implementation with the smallest estimate among those that take the problem.
Choice choose(const Conv2dProblem& problem, Direction direction, const Device& device,
              const Settings& settings, bool with_bias = false);

// One way to run a problem, and how long its run took; infinity: it failed.
struct Timed {
  Implementation implementation;
  double ms;
};

// The fastest of them, none where all failed. Kernels that are faster than ATen's by no more than a
// timing errs are not.
std::optional<size_t> fastest_of(const std::vector<Timed>& timed);

// Several lines: the choice, then each candidate's plan and estimate, or why it declined.
std::ostream& operator<<(std::ostream& os, const Choice& choice);

}  // namespace haloconv
