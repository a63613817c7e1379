#include "registration/conv2d/tune.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Sleep.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <limits>
#include <utility>
#include <vector>

#include "registration/conv2d/force.h"

namespace haloconv {
namespace {

constexpr int kWarmingRounds = 1, kTimedRounds = 3;

using Clock = std::chrono::steady_clock;

// The device waits for somewhat longer than the host needs, 20 ms at most. Where it cannot, only
// the timing is worse.
void let_the_host_run_ahead(Clock::duration host) {
  constexpr double kCyclesPerSecond = 2e9, kMost = 0.02;
  const double seconds = std::min(1.5 * std::chrono::duration<double>(host).count(), kMost);
  try {
    at::cuda::sleep(static_cast<int64_t>(seconds * kCyclesPerSecond));
  } catch (const std::exception&) {
  }
}

// Waiting for a timing would end a capture with an error.
bool is_capturing() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

// Two runs between two events.
struct Timing {
  size_t candidate;
  at::cuda::CUDAEvent start{cudaEventDefault}, end{cudaEventDefault};
};

// What leaves nothing else in the L2 cache when it is written; undefined where memory is short.
at::Tensor cache_filler() {
  try {
    const int64_t bytes = 2 * int64_t{at::cuda::getCurrentDeviceProperties()->l2CacheSize};
    return at::empty({bytes}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
  } catch (const std::exception&) {
    return {};
  }
}

// The shortest time of each candidate. They run in turns, so that the chip's heat, which slows it
// by some per cent, meets all alike. A time is of two runs: the first finds the caches full of
// other things, as in a network, where a layer's operands are some of them long written, the second
// what the first left there, as in a loop of calls. A timed round is enqueued before the device
// begins with it: a run of several short kernels would be timed with the host's time between them.
// One that fails is left out: another may need less memory, and if none works, the call itself
// raises the error. None fails for want of the memory that fills the caches: that is given up
// first.
std::vector<Measurement> time_all(const std::vector<Candidate>& candidates,
                                  const std::function<void(const Candidate&)>& run) {
  std::vector<bool> fails(candidates.size());
  std::deque<Timing> timings;
  at::Tensor filler = cache_filler();
  const auto succeeds = [&](size_t i, bool warms) {
    try {
      if (filler.defined()) filler.zero_();
      Timing timing{.candidate = i};
      timing.start.record();
      run(candidates[i]);
      run(candidates[i]);
      timing.end.record();
      if (!warms) timings.push_back(std::move(timing));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  };
  Clock::duration host{};  // what enqueuing a round took
  for (int round = 0; round < kWarmingRounds + kTimedRounds; ++round) {
    const bool warms = round < kWarmingRounds;
    if (!warms) let_the_host_run_ahead(host);
    const auto begin = Clock::now();
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (fails[i] || succeeds(i, warms)) continue;
      const bool is_filled = filler.defined();
      filler.reset();
      fails[i] = !is_filled || !succeeds(i, warms);
    }
    host = Clock::now() - begin;
  }
  std::vector<Measurement> shortest;
  for (const Candidate& candidate : candidates) {
    shortest.push_back({candidate, std::numeric_limits<double>::infinity()});
  }
  for (const Timing& timing : timings) {
    if (fails[timing.candidate]) continue;
    timing.end.synchronize();
    double& ms = shortest[timing.candidate].ms;
    ms = std::min<double>(ms, timing.start.elapsed_time(timing.end));
  }
  return shortest;
}

}  // namespace

bool wants_the_fastest() {
  const at::Context& context = at::globalContext();
  return context.benchmarkCuDNN() && !context.deterministicAlgorithms() &&
         !context.deterministicCuDNN() && forced_implementation().empty();
}

const Candidate& candidate_for(Selection& selection,
                               const std::function<void(const Candidate&)>& run) {
  if (selection.choice.candidates.size() == 1 || !wants_the_fastest()) {
    return selection.choice.candidates.front();
  }
  if (selection.fastest < 0 && !is_capturing()) {
    const auto fastest = fastest_of(time_all(selection.choice.candidates, run));
    selection.fastest = fastest ? static_cast<int>(*fastest) : -1;
  }
  const int fastest = selection.fastest;
  return selection.choice.candidates[std::max(fastest, 0)];
}

}  // namespace haloconv
