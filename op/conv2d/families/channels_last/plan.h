// How fprop and dgrad of tensors with channels innermost are computed. Pure host functions: no GPU
// is asked.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/channels_last/arguments.h"
#include "conv2d/families/channels_last/rows.h"
#include "conv2d/families/channels_last/splits.h"
#include "conv2d/families/channels_last/staying.h"
#include "conv2d/families/channels_last/strips.h"
#include "conv2d/families/channels_last/turned.h"
#include "conv2d/families/channels_last/windows.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last {

// A launch of kilobytes, which a plan does not hold itself: planners make and move many plans.
template <class Large>
using Kept = std::shared_ptr<const Large>;

struct Plan {
  Direction direction = Direction::kFprop;  // or dgrad
  Tile tile;
  // By windows, by columns of pixels for each tap, in one launch or several, by strips, by columns
  // whose products blocks share, by columns with results whose rows are innermost, by columns as
  // products that are turned around, or by columns with a filter that stays.
  std::variant<WindowLaunch, std::vector<Launch>, StripLaunch, Kept<SplitLaunch>, Kept<RowLaunch>,
               TurnedLaunch, Kept<StayingLaunch>>
      launch;
  int64_t columns = 1;  // of the result that are one of the problem's, which was folded: fold.h
  int64_t workspace_bytes = 0;  // with what repeats channels behind the transposed filter
  int64_t repeated_at = 0;      // where that is
  double estimated_ms = 0;

  bool by_windows() const { return launch.index() == 0; }
  bool is_turned() const { return std::holds_alternative<TurnedLaunch>(launch); }
  bool has_staying_filter() const { return std::holds_alternative<Kept<StayingLaunch>>(launch); }
  // Whether a residual, if there is one, passes through shared memory by the copy engine.
  bool copies_residual() const;
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// Why the kernels do not take a problem, or "".
std::string declines(const Conv2dProblem& problem, Direction direction, bool tf32,
                     const Chip& chip);

// All plans of a problem that declines() passes, the one expected to be fastest first.
std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip);

}  // namespace haloconv::sm90::channels_last
