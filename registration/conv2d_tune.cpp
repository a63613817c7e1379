#include "registration/conv2d_tune.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <limits>

#include "registration/conv2d_force.h"

namespace haloconv {
namespace {

constexpr int kRuns = 3;

bool may_time() {
  const at::Context& context = at::globalContext();
  return context.benchmarkCuDNN() && !context.deterministicAlgorithms() &&
         !context.deterministicCuDNN() && !forced_implementation() &&
         c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None;
}

float milliseconds(const Contender& contender, const std::function<void(const Contender&)>& run) {
  at::cuda::CUDAEvent start(cudaEventDefault), end(cudaEventDefault);
  try {
    run(contender);
    start.record();
    for (int i = 0; i < kRuns; ++i) run(contender);
    end.record();
  } catch (const c10::OutOfMemoryError&) {
    return std::numeric_limits<float>::infinity();  // another may need less
  }
  end.synchronize();
  return start.elapsed_time(end);
}

}  // namespace

Contender contender_for(Selection& selection, const std::function<void(const Contender&)>& run) {
  if (selection.contenders.size() == 1 || !may_time()) return selection.contenders.front();
  int fastest = selection.fastest.load();
  if (fastest < 0) {
    float best = std::numeric_limits<float>::infinity();
    fastest = 0;
    for (size_t i = 0; i < selection.contenders.size(); ++i) {
      const float ms = milliseconds(selection.contenders[i], run);
      if (ms < best) {
        best = ms;
        fastest = static_cast<int>(i);
      }
    }
    selection.fastest.store(fastest);
  }
  return selection.contenders[fastest];
}

}  // namespace haloconv
