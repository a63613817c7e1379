// Which kernel family runs a problem on a CUDA device, and by which plan. Pure host functions.
#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conv2d/family.h"

namespace haloconv {

// The name of the convolution that PyTorch itself would run, on the caller's side of op/: it takes
// every problem, and stands behind all families.
inline constexpr std::string_view kAten = "aten";

// What may be forced: the families' groups, the families, and kAten, each once. The views last as
// long as the process, so that equal names have equal addresses.
std::vector<std::string_view> forceable_names(std::span<const Family* const> families);

// One way to run a problem.
struct Candidate {
  const Family* family = nullptr;  // null: ATen
  PlanPointer plan = {};           // null: ATen

  std::string_view name() const { return family == nullptr ? kAten : family->name; }
  bool is_aten() const { return family == nullptr; }
};

// What one of them said when it was asked.
struct Reply {
  const Family* family = nullptr;  // null: ATen
  Answer answer = {};              // of ATen: neither a reason nor a plan
  double estimated_ms = 0;         // where it takes the problem

  std::string_view name() const { return family == nullptr ? kAten : family->name; }
};

struct Choice {
  std::vector<Reply> replies;  // in the order in which they were asked, ATen last
  // The model's choice first, then what is worth being timed against it; none: what is forced
  // declined.
  std::vector<Candidate> candidates;
};

// Asks the families, all of them or those that `forced` names ("": all), and ATen. The first
// candidate is the one with the smallest estimate, or one that rounds nothing and is expected to
// take hardly longer. Throws std::logic_error for sizes that are none of a convolution.
Choice choose(const Request& request, std::string_view forced,
              std::span<const Family* const> families);
// The same of all families.
Choice choose(const Request& request, std::string_view forced = {});
// Where no kernel runs at all, for the reason `why`: every family declines by it.
Choice choose_without_kernels(const Request& request, std::string_view forced,
                              const std::string& why);

// How long one candidate's run took; infinity: it failed.
struct Measurement {
  Candidate candidate;
  double ms;
};

// The fastest of them, none where all failed. Kernels that are faster than ATen's by no more than a
// measurement errs are not; nor are those that round float32 to TF32, where a plan that rounds
// nothing takes hardly longer (free_precision.h).
std::optional<size_t> fastest_of(std::vector<Measurement> measurements);

// One line: the group, the name, and the plan where there is one.
std::ostream& operator<<(std::ostream& os, const Candidate& candidate);
// Several lines: the choice, then each one's plan and estimate, or why it declined.
std::ostream& operator<<(std::ostream& os, const Choice& choice);

}  // namespace haloconv
