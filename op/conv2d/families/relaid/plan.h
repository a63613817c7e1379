// A plan of the relaid family: copies, and another family's plan for the problem in between. Pure
// host functions: they ask no GPU.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "conv2d/families/relaid/relaid_problem.h"
#include "conv2d/family.h"

namespace haloconv::relaid {

// Where a copy is in the workspace, if there is one.
struct Place {
  bool is_there = false;
  int64_t at = 0;
};

struct Plan {
  Direction direction = Direction::kFprop;
  const Family* family = nullptr;  // which computes in between,
  PlanPointer plan = {};           // and how
  Place input = {}, filter = {}, output = {};
  // Of values for each channel, three times as many bytes, where channels were added.
  Place values = {};
  int64_t value_bytes = 0;
  int64_t workspace_at = 0;  // the family's
  int64_t workspace_bytes = 0;
  double estimated_ms = 0;
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// Around a plan for the problem that stands for the request's.
Plan make_plan(const Request& request, const RelaidProblem& relaid, const Family& family,
               const PlanPointer& plan);

}  // namespace haloconv::relaid
