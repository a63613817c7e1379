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
  std::string problem;  // all that the answer depends on beside the environment, as text
  std::vector<Contender> contenders;  // the model's choice first
  // Milliseconds of each contender, infinity where it fails.
  std::function<std::vector<double>()> time;
  // The fastest by these; none where all failed.
  std::function<std::optional<size_t>(const std::vector<double>&)> fastest_of;
};

// One for each problem. Once made it stays; until then the model's choice runs.
class Decision {
 public:
  // The contender that is on record or, where none is, was the fastest when they were timed: by
  // whichever thread came first, while others wait. One that failed may have lacked memory that
  // another process has: the choice without it goes to no file. Without `may_wait`, as while a
  // graph is being captured, nothing is timed or waited for. Where nothing is decided it is 0, the
  // model's choice, and a later call tries again; what timing throws goes to its own caller.
  size_t make(const Question& question, bool may_wait);

  // What make() gives from now on; none where that is not decided yet.
  std::optional<size_t> made() const;

 private:
  Once<size_t> fastest_;
};

}  // namespace haloconv::tuning
