// From checked tensors to a problem of op/, and to the implementation that runs it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conv2d/choice.h"
#include "registration/conv2d/checks.h"
#include "registration/tuning/decision.h"

namespace haloconv {

// What a call computes of a problem.
struct Computation {
  Direction direction;
  bool with_bias = false;  // in wgrad: the bias gradient too
  bool fused = false;      // in fprop: what follows it too
  bool is_aligned = true;  // Request::is_aligned
};

// Whether the tensors, each of which may be undefined, begin at multiples of 16 bytes.
template <class... Tensors>
bool begin_at_16_bytes(const Tensors&... tensors) {
  const auto is_aligned = [](const at::Tensor& tensor) {
    return !tensor.defined() || reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
  };
  return (is_aligned(tensors) && ...);
}

// The problem that tensors with these strides pose. A tensor that does not exist yet, such as the
// result, may be undefined and then counts as dense.
Conv2dProblem make_problem(const Conv2dArguments& args, const at::Tensor& input,
                           const at::Tensor& weight, const at::Tensor& output);

// What is asked of the families for a call with the current device and settings.
Request make_request(const Conv2dProblem& problem, const Computation& computation);

// choose() for the current device, on which there may be no kernels.
Choice choose_here(const Request& request, std::string_view forced);

// What choose() returned for a problem. It is kept for the next call with the same problem and
// settings.
struct Selection {
  Request request;
  bool fused = false;
  Choice choice;
  tuning::Decision fastest = {};  // of its candidates
  // Whether ATen's fprop is cuDNN's; -1: it has not been asked.
  std::atomic<int> aten_is_cudnn = -1;
};

// Raises an error if the forced implementation declines.
std::shared_ptr<Selection> select(const Conv2dProblem& problem, const Computation& computation);

// All on which the timing of such a selection depends beside the device and versions. It is the
// same text in every build.
std::string text_of(const Selection& selection);

// Forgets all selections; those in use live until their calls end.
void forget_selections();

// What timing chose for the problem with the current settings; none if nothing was timed.
std::optional<Candidate> timed_candidate(const Conv2dProblem& problem,
                                         const Computation& computation);

}  // namespace haloconv
