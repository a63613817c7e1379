#include "conv2d/choice.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "conv2d/aten_model.h"
#include "conv2d/families.h"
#include "conv2d/free_precision.h"
#include "conv2d/worth_timing.h"

namespace haloconv {

namespace {

// A plan that the model expects to be so many times slower than the best is not timed ...
constexpr double kHopeless = 4;
// ... and neither is the best of a kind that is so many times slower than its group's best.
constexpr double kHopelessKind = 1.3;
constexpr double kTimingError = 0.02;  // of the shortest of some runs: benchmarks/NOTES.md

constexpr const char* kForcedAway = "another implementation is forced";

bool is_forced_away(const Family& family, std::string_view forced) {
  return !forced.empty() && forced != family.group && forced != family.name;
}

Reply reply_of(const Family& family, const Request& request, std::string_view forced) {
  if (is_forced_away(family, forced)) {
    return {.family = &family, .answer = {.declined = kForcedAway}};
  }
  Reply reply{.family = &family, .answer = family.ask(request)};
  if (!reply.answer.declined.empty()) return reply;
  if (reply.answer.plans.empty()) {
    throw std::logic_error(std::string(family.name) + " has no plan, and no reason for it");
  }
  reply.estimated_ms = reply.answer.plans.front()->estimated_ms;
  return reply;
}

Reply reply_of_aten(const Request& request, std::string_view forced) {
  Reply reply;
  if (!forced.empty() && forced != kAten) {
    reply.answer.declined = kForcedAway;
    return reply;
  }
  reply.estimated_ms = estimate_aten_ms(request.problem, request.direction, request.chip,
                                        request.tf32, request.with_bias);
  return reply;
}

bool rounds(const Measurement& way) {
  return !way.candidate.is_aten() && way.candidate.plan->rounds_to_tf32;
}

// Whether it certainly rounds nothing; for ATen's convolutions that is not known.
bool is_full(const Measurement& way) { return !way.candidate.is_aten() && !rounds(way); }

// The index of the fastest candidate. If it rounds float32 and the fastest that does not takes
// hardly longer, that one's. None if all failed.
std::optional<size_t> fastest(const std::vector<Measurement>& ways) {
  const auto least = [&](auto counts) {
    std::optional<size_t> found;
    for (size_t i = 0; i < ways.size(); ++i) {
      if (!counts(ways[i]) || std::isinf(ways[i].ms)) continue;
      if (!found || ways[i].ms < ways[*found].ms) found = i;
    }
    return found;
  };
  const auto of_all = least([](const Measurement&) { return true; });
  if (!of_all || !rounds(ways[*of_all])) return of_all;
  const auto full = least(is_full);
  return full && ways[*full].ms <= kFreePrecision * ways[*of_all].ms ? full : of_all;
}

// A plan of a family's answer, which is not copied, for its pointer counts copies.
struct Entry {
  const Family* family;
  const PlanPointer* plan;
  // By which entries are sorted: families in the order of their groups, plans that round before
  // those that do not, because these are seldom faster, and of either the fastest first.
  size_t group;  // the place of the group's first family
  bool rounds;
  double estimated_ms;
  size_t place;

  bool is_listed_with(const Entry& other) const {
    return group == other.group && rounds == other.rounds;
  }
  bool is_alike(const Entry& other) const {
    return family == other.family && (*plan)->kind == (*other.plan)->kind;
  }
};

// All plans, sorted.
std::vector<Entry> entries_of(const std::vector<Reply>& replies) {
  std::vector<Entry> entries;
  size_t count = 0;
  for (const Reply& reply : replies) count += reply.answer.plans.size();
  entries.reserve(count);
  for (const Reply& reply : replies) {
    if (reply.answer.plans.empty()) continue;
    const auto first = std::ranges::find(replies, reply.family->group,
                                         [](const Reply& each) { return each.family->group; });
    for (const PlanPointer& plan : reply.answer.plans) {
      entries.push_back({.family = reply.family,
                         .plan = &plan,
                         .group = static_cast<size_t>(first - replies.begin()),
                         .rounds = plan->rounds_to_tf32,
                         .estimated_ms = plan->estimated_ms,
                         .place = entries.size()});
    }
  }
  std::ranges::sort(entries, {}, [](const Entry& entry) {
    return std::tuple(entry.group, !entry.rounds, entry.estimated_ms, entry.place);
  });
  return entries;
}

// Adds those of a list of plans that are timed: the best of each kind, then others if there is
// room, the fastest first.
void add_best_of_kinds(std::span<const Entry> list, std::vector<Measurement>& ways) {
  const auto is_first = [&](const Entry& entry) {
    if (entry.estimated_ms > kHopelessKind * list.front().estimated_ms) return false;
    return std::none_of(list.data(), &entry,
                        [&](const Entry& before) { return before.is_alike(entry); });
  };
  size_t room = kMostOfGroup;
  for (const bool are_firsts : {true, false}) {
    for (const Entry& entry : list) {
      if (room == 0) return;
      if (is_first(entry) != are_firsts) continue;
      ways.push_back(
          {.candidate = {.family = entry.family, .plan = *entry.plan}, .ms = entry.estimated_ms});
      --room;
    }
  }
}

// What may be timed and how long it is expected to take: of one group after the other, each the
// fastest first, ATen last.
std::vector<Measurement> expected_of(const std::vector<Reply>& replies) {
  const std::vector<Entry> entries = entries_of(replies);
  std::vector<Measurement> expected;
  expected.reserve(entries.size() + 1);
  for (auto first = entries.begin(); first != entries.end();) {
    const auto end = std::find_if(
        first, entries.end(), [&](const Entry& entry) { return !entry.is_listed_with(*first); });
    add_best_of_kinds({first, end}, expected);
    first = end;
  }
  const Reply& aten = replies.back();
  if (aten.answer.declined.empty()) expected.push_back({.candidate = {}, .ms = aten.estimated_ms});
  return expected;
}

}  // namespace

std::vector<std::string_view> forceable_names(std::span<const Family* const> families) {
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Family* family : families) add(family->group);
  for (const Family* family : families) add(family->name);
  add(kAten);
  return names;
}

Choice choose(const Request& request, std::string_view forced,
              std::span<const Family* const> families) {
  check_sizes(request.problem);
  Choice choice;
  choice.replies.reserve(families.size() + 1);
  for (const Family* family : families) {
    choice.replies.push_back(reply_of(*family, request, forced));
  }
  choice.replies.push_back(reply_of_aten(request, forced));
  std::vector<Measurement> expected = expected_of(choice.replies);
  if (expected.empty()) return choice;
  const auto best = expected.begin() + static_cast<ptrdiff_t>(fastest(expected).value());
  const double most_ms = kHopeless * best->ms;
  choice.candidates.reserve(expected.size());
  choice.candidates.push_back(std::move(best->candidate));
  for (auto each = expected.begin(); each != expected.end(); ++each) {
    if (each != best && each->ms <= most_ms) {
      choice.candidates.push_back(std::move(each->candidate));
    }
  }
  return choice;
}

Choice choose(const Request& request, std::string_view forced) {
  return choose(request, forced, families());
}

Choice choose_without_kernels(const Request& request, std::string_view forced,
                              const std::string& why) {
  Choice choice;
  for (const Family* family : families()) {
    choice.replies.push_back(
        {.family = family,
         .answer = {.declined = is_forced_away(*family, forced) ? kForcedAway : why}});
  }
  choice.replies.push_back(reply_of_aten(request, forced));
  if (choice.replies.back().answer.declined.empty()) choice.candidates.push_back({});
  return choice;
}

std::optional<size_t> fastest_of(std::vector<Measurement> measurements) {
  for (Measurement& each : measurements) {
    if (each.candidate.is_aten()) each.ms *= 1 - kTimingError;
  }
  return fastest(measurements);
}

namespace {

// "GROUP, NAME", or only the name if it is the group's too.
std::string label_of(const Family* family) {
  if (family == nullptr) return std::string(kAten);
  if (family->group == family->name) return std::string(family->name);
  return std::string(family->group) + ", " + std::string(family->name);
}

// The plan that runs if it is this family's, else the family's fastest.
const Plan& plan_to_show(const Choice& choice, const Reply& reply) {
  const Candidate& chosen = choice.candidates.front();
  return chosen.family == reply.family ? *chosen.plan : *reply.answer.plans.front();
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Candidate& candidate) {
  os << label_of(candidate.family);
  if (candidate.plan) os << ", " << candidate.plan->text();
  return os;
}

std::string describe_rounding(const Request& request, const Candidate& candidate) {
  if (request.problem.type != DataType::kFloat32 || !request.tf32) return "";
  if (candidate.is_aten()) return "float32: as PyTorch computes it where TF32 is allowed\n";
  return candidate.plan->rounds_to_tf32 ? "float32: rounded to TF32\n"
                                        : "float32: in full, though TF32 is allowed\n";
}

std::ostream& operator<<(std::ostream& os, const Choice& choice) {
  os << "implementation: "
     << (choice.candidates.empty() ? "none" : label_of(choice.candidates.front().family)) << '\n';
  for (const Reply& reply : choice.replies) {
    os << "  " << label_of(reply.family) << ": ";
    if (!reply.answer.declined.empty()) {
      os << "declined, " << reply.answer.declined << '\n';
    } else if (reply.family == nullptr) {
      os << "expected " << reply.estimated_ms << " ms\n";
    } else {
      const Plan& plan = plan_to_show(choice, reply);
      os << "expected " << plan.estimated_ms << " ms, " << plan.text() << '\n';
    }
  }
  return os;
}

}  // namespace haloconv
