// A plan of the relaid family: copies, and another family's plan for the problem in between. Pure
// host functions, which ask no GPU.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "conv2d/families/relaid/relaid_problem.h"
#include "conv2d/family.h"

namespace haloconv::relaid {

struct Plan {
  Direction direction = Direction::kFprop;
  const Family* family = nullptr;  // which computes in between,
  PlanPointer plan = {};           // and how
  RelaidProblem relaid;
  // Where in the workspace each copy is, and the family's own workspace. There may be three copies
  // of values for each channel, side by side.
  int64_t input_at = 0, filter_at = 0, output_at = 0;
  int64_t values_at = 0, value_bytes = 0;
  int64_t workspace_at = 0;
  int64_t workspace_bytes = 0;
  double estimated_ms = 0;
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// The plan around another one, for the problem that replaces the request's.
Plan make_plan(const Request& request, const RelaidProblem& relaid, const Family& family,
               const PlanPointer& plan);

}  // namespace haloconv::relaid
