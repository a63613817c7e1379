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

// The name of the convolution that PyTorch itself would run, on the caller's side of op/. It takes
// every problem, and is asked after all families.
inline constexpr std::string_view kAten = "aten";

// What may be forced: the families' groups, the families, and kAten, each once. The names last as
// long as the process, so that equal ones have equal addresses.
std::vector<std::string_view> forceable_names(std::span<const Family* const> families);

// One way to run a problem.
struct Candidate {
  const Family* family = nullptr;  // null: ATen
  PlanPointer plan = {};           // null: ATen

  std::string_view name() const { return family == nullptr ? kAten : family->name; }
  bool is_aten() const { return family == nullptr; }
};

// What a family or ATen answered.
struct Reply {
  const Family* family = nullptr;  // null: ATen
  Answer answer = {};              // ATen's has neither a reason nor a plan
  double estimated_ms = 0;         // 0 unless it takes the problem

  std::string_view name() const { return family == nullptr ? kAten : family->name; }
};

struct Choice {
  std::vector<Reply> replies;  // in the order in which they were asked, ATen last
  // The model's choice first, then what is worth being timed beside it. None if what is forced
  // declined.
  std::vector<Candidate> candidates;
};

// Asks the families that `forced` names ("": all), and ATen. The first candidate is the one with
// the smallest estimate, or one that rounds nothing and is expected to take hardly longer. Throws
// std::logic_error for sizes that no convolution has.
Choice choose(const Request& request, std::string_view forced,
              std::span<const Family* const> families);
// The same for all families.
Choice choose(const Request& request, std::string_view forced = {});
// The choice if no kernel runs at all, for the reason `why`, with which every family declines.
Choice choose_without_kernels(const Request& request, std::string_view forced,
                              const std::string& why);

// How long one candidate's run took; infinity if it failed.
struct Measurement {
  Candidate candidate;
  double ms;
};

// The fastest of them; none if all failed. Kernels must be faster than ATen's by more than the
// error of a measurement. Kernels that round float32 to TF32 are not taken if a plan that rounds
// nothing takes hardly longer (free_precision.h).
std::optional<size_t> fastest_of(std::vector<Measurement> measurements);

// One line: the group, the name, and the plan if there is one.
std::ostream& operator<<(std::ostream& os, const Candidate& candidate);
// A line that says whether the candidate computes in full float32 though TF32 is allowed; "" for
// other types, and where TF32 is not allowed.
std::string describe_rounding(const Request& request, const Candidate& candidate);
// Several lines: the choice, then for each family its plan and estimate, or why it declined. The
// plan is the one that was chosen if there is one of the family's, else the family's fastest.
std::ostream& operator<<(std::ostream& os, const Choice& choice);

}  // namespace haloconv
