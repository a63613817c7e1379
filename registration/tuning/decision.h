// Which of a problem's contenders runs.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "registration/tuning/once.h"
#include "registration/tuning/store.h"

namespace haloconv::tuning {

// One way to compute a problem, by its name in records.
struct Contender {
  std::string family, plan;
};

// What a decision is made from.
struct Question {
  Store& store;
  const Environment& environment;
  std::string problem;  // all on which the answer depends beside the environment, as text
  std::vector<Contender> contenders;  // the model's choice first
  // Milliseconds of each contender, infinity for one that fails.
  std::function<std::vector<double>()> time;
  // The fastest by these times; none if all failed.
  std::function<std::optional<size_t>(const std::vector<double>&)> fastest_of;
};

// One for each problem. Once made it stays; until then the model's choice runs.
class Decision {
 public:
  // The contender on record. If there is none, the first thread that comes times the contenders,
  // while others wait, and the fastest is taken. A contender that failed may have lacked memory
  // that another process has, so a choice without it goes to no file. Without `may_wait`, as while
  // a graph is being captured, nothing is timed or waited for. If nothing is decided, the result is
  // 0, the model's choice, and a later call tries again. What timing throws goes to its own caller.
  size_t make(const Question& question, bool may_wait);

  // What make() gives from now on; none if that is not decided yet.
  std::optional<size_t> made() const;

 private:
  Once<size_t> fastest_;
};

}  // namespace haloconv::tuning
