#include "registration/tuning/timing.h"

#include <algorithm>
#include <exception>
#include <limits>

namespace haloconv::tuning {
namespace {

constexpr int kWarmingRounds = 1, kTimedRounds = 3;
// What is chosen for 28 small layers with channels innermost takes in a loop of calls 1.006 times
// as long as their fastest plans by four runs, 1.013 by two and 1.030 by one (83 directions, an
// H200).
constexpr int kRuns = 4;

struct Timing {
  size_t contender, start, end;  // the last two are marks
};

}  // namespace

// They run in turns, so that the chip's heat, which slows it by some per cent, meets all alike. A
// time is that of some runs. The first finds the caches full of other data, as in a network, where
// some of a layer's operands were written long before; the others find what it left there, as in a
// loop of calls. A timed round is enqueued before the device begins with it, because a run of
// several short kernels would otherwise include the host's time between them. A contender that
// fails is left out: another may need less memory, and if none works, the call itself raises the
// error. The memory that fills the caches is given up before any contender fails for want of it.
std::vector<double> shortest_times(size_t contenders, const std::function<void(size_t)>& run,
                                   Stopwatch& stopwatch) {
  using Clock = std::chrono::steady_clock;
  std::vector<bool> fails(contenders);
  std::vector<Timing> timings;
  const auto succeeds = [&](size_t contender, bool warms) {
    try {
      stopwatch.fill_caches();
      const size_t start = stopwatch.mark();
      for (int i = 0; i < kRuns; ++i) run(contender);
      const size_t end = stopwatch.mark();
      if (!warms) timings.push_back({.contender = contender, .start = start, .end = end});
      return true;
    } catch (const std::exception&) {
      return false;
    }
  };
  Clock::duration host{};  // what enqueuing a round took
  for (int round = 0; round < kWarmingRounds + kTimedRounds; ++round) {
    const bool warms = round < kWarmingRounds;
    if (!warms) stopwatch.let_the_host_run_ahead(host);
    const auto begin = Clock::now();
    for (size_t i = 0; i < contenders; ++i) {
      if (fails[i] || succeeds(i, warms)) continue;
      fails[i] = !stopwatch.give_up_filling() || !succeeds(i, warms);
    }
    host = Clock::now() - begin;
  }
  std::vector<double> shortest(contenders, std::numeric_limits<double>::infinity());
  for (const auto& [contender, start, end] : timings) {
    if (fails[contender]) continue;
    shortest[contender] = std::min(shortest[contender], stopwatch.elapsed_ms(start, end) / kRuns);
  }
  return shortest;
}

}  // namespace haloconv::tuning
