#include "registration/conv2d/tune.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/Sleep.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device.h"
#include "registration/conv2d/force.h"
#include "registration/tuning/process_store.h"
#include "registration/tuning/timing.h"

namespace haloconv {
namespace {

// Waiting for a timing would end a capture with an error.
bool is_capturing() {
  const auto stream = at::cuda::getCurrentCUDAStream();
  return haloconv::is_capturing(stream.device_index(), stream.stream());
}

// Events on the current stream. They are c10's: with at::cuda's the library itself would call
// CUDA's runtime. Another torch may not have that, and then the library could not load to say so.
class EventStopwatch final : public tuning::Stopwatch {
 public:
  // Somewhat longer than the host needs, but 20 ms at most. If the device cannot wait, the timing
  // is worse, and nothing else.
  void let_the_host_run_ahead(Duration host) override {
    constexpr double kCyclesPerSecond = 2e9, kMost = 0.02;
    const double seconds = std::min(1.5 * std::chrono::duration<double>(host).count(), kMost);
    try {
      at::cuda::sleep(static_cast<int64_t>(seconds * kCyclesPerSecond));
    } catch (const std::exception&) {
    }
  }

  void fill_caches() override {
    if (filler_.defined()) filler_.zero_();
  }

  bool give_up_filling() override { return std::exchange(filler_, {}).defined(); }

  size_t mark() override {
    events_.emplace_back(at::kCUDA, c10::EventFlag::BACKEND_DEFAULT)
        .record(at::cuda::getCurrentCUDAStream());
    return events_.size() - 1;
  }

  double elapsed_ms(size_t from, size_t to) override {
    events_[to].synchronize();
    return events_[from].elapsedTime(events_[to]);
  }

 private:
  // Writing it leaves nothing else in the L2 cache; undefined if memory is short.
  static at::Tensor cache_filler() {
    try {
      const int64_t bytes = 2 * int64_t{at::cuda::getCurrentDeviceProperties()->l2CacheSize};
      return at::empty({bytes}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
    } catch (const std::exception&) {
      return {};
    }
  }

  at::Tensor filler_ = cache_filler();
  std::deque<c10::Event> events_;
};

// The device as a record names it. A part of a chip, as several processes may each have one, has
// another name or number of multiprocessors.
std::string text_of(const Chip& chip) {
  std::ostringstream text;
  text << chip.name << ", compute capability " << compute_capability_text(chip.compute_capability)
       << ", " << chip.multiprocessors << " multiprocessors";
  return text.str();
}

// By their names in records.
std::vector<tuning::Contender> contenders_of(const std::vector<Candidate>& candidates) {
  std::vector<tuning::Contender> contenders;
  for (const Candidate& candidate : candidates) {
    contenders.push_back({.family = std::string(candidate.name()),
                          .plan = candidate.plan == nullptr ? "" : candidate.plan->text()});
  }
  return contenders;
}

std::optional<size_t> fastest_by(const std::vector<Candidate>& candidates,
                                 const std::vector<double>& times) {
  std::vector<Measurement> measurements;
  for (size_t i = 0; i < candidates.size(); ++i) measurements.push_back({candidates[i], times[i]});
  return fastest_of(measurements);
}

}  // namespace

tuning::Environment environment_of(const Chip& chip) {
  tuning::Environment environment = tuning::process_store().here();
  environment.device = text_of(chip);
  return environment;
}

bool wants_the_fastest() {
  const at::Context& context = at::globalContext();
  return context.benchmarkCuDNN() && !context.deterministicAlgorithms() &&
         !context.deterministicCuDNN() && forced_implementation().empty();
}

const Candidate& candidate_for(Selection& selection,
                               const std::function<void(const Candidate&)>& run) {
  const std::vector<Candidate>& candidates = selection.choice.candidates;
  if (candidates.size() == 1 || !wants_the_fastest()) return candidates.front();
  if (const auto fastest = selection.fastest.made()) return candidates[*fastest];
  tuning::Store& store = tuning::process_store();
  const tuning::Environment environment = environment_of(selection.request.chip);
  const tuning::Question question = {
      .store = store,
      .environment = environment,
      .problem = text_of(selection),
      .contenders = contenders_of(candidates),
      .time =
          [&] {
            EventStopwatch stopwatch;
            return tuning::shortest_times(
                candidates.size(), [&](size_t i) { run(candidates[i]); }, stopwatch);
          },
      .fastest_of =
          [&](const std::vector<double>& times) { return fastest_by(candidates, times); }};
  return candidates[selection.fastest.make(question, !is_capturing())];
}

}  // namespace haloconv
