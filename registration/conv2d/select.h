// From checked tensors to a problem of op/, and to the implementation that runs it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "conv2d/choice.h"
#include "registration/conv2d/checks.h"

namespace haloconv {

// The problem that tensors with these strides pose; one that the call does not have (its result,
// before it exists) may be undefined and then counts as dense.
Conv2dProblem make_problem(const Conv2dArguments& args, const at::Tensor& input,
                           const at::Tensor& weight, const at::Tensor& output);

// The user's settings, read at every call: float32 precision of convolutions, forced choice.
Settings current_settings();

// What the current CUDA device is.
Device current_device();

// One way to run a problem: an implementation and, of kSm90, one of the choice's plans.
struct Contender {
  Implementation implementation = Implementation::kAten;
  size_t plan = 0;
};

// What a call computes of a problem.
struct Computation {
  Direction direction;
  bool with_bias = false;  // of wgrad: the bias gradient too
  bool fused = false;      // of fprop: what follows it too
};

// What choose() said of a problem. Kept for the next such call with the same problem and settings.
struct Selection {
  Choice choice;
  // The choice first, then what is worth being timed against it.
  std::vector<Contender> contenders;
  // Which of them was the fastest when timed; -1: they have not been.
  std::atomic<int> fastest = -1;
  // Whether ATen's fprop is cuDNN's; -1: it has not been asked.
  std::atomic<int> aten_is_cudnn = -1;
};

// With an error where the forced implementation declines.
std::shared_ptr<Selection> select(const Conv2dProblem& problem, const Computation& computation);

// A line on what timing chose for the problem with the current settings; "" where none was timed.
std::string describe_timed(const Conv2dProblem& problem, const Computation& computation);

}  // namespace haloconv
