// What a kernel family is: one way to compute convolutions, in a folder of its own below families/.
// A family is asked whether it takes a request, and by which plans; a plan is launched as often as
// there are calls. Asking is pure host arithmetic: no device is needed for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/epilogue/fusion.h"
#include "conv2d/problem.h"

struct CUstream_st;  // cudaStream_t is a pointer to it; planning includes no header of CUDA

namespace haloconv {

// What a family is asked to compute.
struct Request {
  Conv2dProblem problem;
  Direction direction = Direction::kFprop;
  const Chip& chip = h200();  // must outlive the request
  bool tf32 = true;           // float32 products may be rounded to TF32
  bool with_bias = false;     // wgrad: the bias gradient is computed too
  // Whether every tensor that is read begins at a multiple of 16 bytes, as what is written does.
  bool is_aligned = true;
  // For tests: all plans that the family has, not only the few that are worth being timed.
  bool every_plan = false;
  // Who takes no more plans than so many, the fastest, says so: a family need not look for others.
  size_t most_plans = std::numeric_limits<size_t>::max();
};

// The device memory of one call, in the problem's type, with the problem's strides. A direction
// reads two of the problem's three tensors and writes the third to `result`.
struct Operands {
  const void* input = nullptr;   // (n, c, h, w): fprop, wgrad
  const void* filter = nullptr;  // (k, c/groups, r, s): fprop, dgrad
  const void* output = nullptr;  // (n, k, p, q), the output's gradient: dgrad, wgrad
  void* result = nullptr;        // output, or gradient of the input or of the filter
  void* grad_bias = nullptr;     // (k): wgrad with_bias
  const void* bias = nullptr;    // one value for each channel of the result, or null
  Fusion fusion = {};
  void* workspace = nullptr;  // Plan::workspace_bytes, aligned to 16 bytes
};

// How a family runs one request: all that a call needs beside its operands.
class Plan {
 public:
  virtual ~Plan() = default;

  // One line: the direction, the kernel, its tile, and the workspace.
  virtual void print(std::ostream& os) const = 0;
  std::string text() const;

  int64_t workspace_bytes = 0;
  double estimated_ms = 0;
  // The estimates of one family's plans of one kind err in the same way, so the best of each kind
  // is worth being timed.
  int64_t kind = 0;
  // Whether its kernels add Operands::bias and compute what Operands::fusion says; otherwise the
  // caller does so afterwards.
  bool takes_bias = false;
  bool takes_fusion = false;
  // Whether its kernels round float32 factors to TF32.
  bool rounds_to_tf32 = false;
};

using PlanPointer = std::shared_ptr<const Plan>;

// A family's plans for a request, the one expected to be fastest first, or why there are none.
struct Answer {
  std::string declined = {};
  std::vector<PlanPointer> plans = {};
};

struct Family {
  std::string_view name;
  std::string_view group;  // what users force: "sm90", "generic"

  Answer (*ask)(const Request& request);

  // Enqueues the plan's kernels on a stream of the current device and returns. It allocates nothing
  // and waits for nothing, writes the whole result, and writes nothing else but the workspace.
  // Sums are kept in float32 (float64 for float64) and added in an order that the plan fixes, so
  // that results repeat bit for bit. Throws std::runtime_error if a launch fails. Null in a build
  // without CUDA.
  void (*launch)(const Plan& plan, const Operands& operands, CUstream_st* stream);
};

// A family's own description of a plan, with the problem that it is for.
template <class Details>
struct PlanOf final : Plan {
  PlanOf(const Conv2dProblem& of, Details plan) : problem(of), details(std::move(plan)) {
    workspace_bytes = details.workspace_bytes;
    estimated_ms = details.estimated_ms;
  }

  void print(std::ostream& os) const override { os << details; }

  Conv2dProblem problem;
  Details details;
};

// The plan as the family made it.
template <class Details>
const PlanOf<Details>& made_by_family(const Plan& plan) {
  const auto* made = dynamic_cast<const PlanOf<Details>*>(&plan);
  if (made == nullptr) throw std::logic_error("haloconv: a family was given another one's plan");
  return *made;
}

// A family's launch function, if it is built.
#if defined(HALOCONV_WITH_CUDA)
#define HALOCONV_LAUNCH(function) (&(function))
#else
#define HALOCONV_LAUNCH(function) nullptr
#endif

}  // namespace haloconv
