#include "registration/conv2d_tune.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <algorithm>
#include <exception>
#include <limits>

#include "registration/conv2d_force.h"

namespace haloconv {
namespace {

constexpr int kRuns = 3;

bool wants_the_fastest() {
  const at::Context& context = at::globalContext();
  return context.benchmarkCuDNN() && !context.deterministicAlgorithms() &&
         !context.deterministicCuDNN() && !forced_implementation();
}

// Waiting for a timing would end a capture with an error.
bool is_capturing() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

// Infinite where the contender fails: another may need less memory, and if none works, the call
// itself raises the error.
float milliseconds(const Contender& contender, const std::function<void(const Contender&)>& run) {
  at::cuda::CUDAEvent start(cudaEventDefault), end(cudaEventDefault);
  try {
    run(contender);
    start.record();
    for (int i = 0; i < kRuns; ++i) run(contender);
    end.record();
    end.synchronize();
    return start.elapsed_time(end);
  } catch (const std::exception&) {
    return std::numeric_limits<float>::infinity();
  }
}

// The fastest contender; negative where each failed.
int time_all(const Selection& selection, const std::function<void(const Contender&)>& run) {
  float best = std::numeric_limits<float>::infinity();
  int fastest = -1;
  for (size_t i = 0; i < selection.contenders.size(); ++i) {
    const float ms = milliseconds(selection.contenders[i], run);
    if (ms < best) {
      best = ms;
      fastest = static_cast<int>(i);
    }
  }
  return fastest;
}

}  // namespace

Contender contender_for(Selection& selection, const std::function<void(const Contender&)>& run) {
  if (selection.contenders.size() == 1 || !wants_the_fastest()) {
    return selection.contenders.front();
  }
  if (selection.fastest < 0 && !is_capturing()) selection.fastest = time_all(selection, run);
  const int fastest = selection.fastest;
  return selection.contenders[std::max(fastest, 0)];
}

}  // namespace haloconv
