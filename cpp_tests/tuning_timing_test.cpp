// How contenders are timed and one is decided on, by a stopwatch that a test sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <limits>
#include <stdexcept>
#include <thread>

#include "cpp_tests/tuning_samples.h"
#include "registration/tuning/decision.h"
#include "registration/tuning/records_file.h"
#include "registration/tuning/timing.h"

namespace haloconv::tuning {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// A device whose time passes as contenders say.
class Device : public Stopwatch {
 public:
  void let_the_host_run_ahead(Duration) override { ++rounds_ahead; }
  void fill_caches() override {
    if (has_filler) ++fills;
  }
  bool give_up_filling() override { return std::exchange(has_filler, false); }
  size_t mark() override {
    marks.push_back(now_ms);
    return marks.size() - 1;
  }
  double elapsed_ms(size_t from, size_t to) override { return marks[to] - marks[from]; }

  double now_ms = 0;
  std::vector<double> marks;
  bool has_filler = true;
  int fills = 0, rounds_ahead = 0;
};

TEST(TuningTiming, GivesTheShortestOfFourRunsEach) {
  Device device;
  std::vector<int> runs(3);
  const std::vector<double> ms = {3, 1, 2};
  const auto run = [&](size_t i) {
    // The first run of each, and every seventh one later, is slow.
    device.now_ms += runs[i]++ % 7 == 0 ? 100 : ms[i];
  };
  EXPECT_EQ(shortest_times(3, run, device), (std::vector<double>{3, 1, 2}));
  EXPECT_EQ(runs, std::vector<int>(3, 16));
  EXPECT_EQ(device.fills, 12);        // before each four runs
  EXPECT_EQ(device.rounds_ahead, 3);  // but for the round that warms
}

TEST(TuningTiming, TheyRunInTurns) {
  Device device;
  std::vector<size_t> order;
  shortest_times(2, [&](size_t i) { order.push_back(i); }, device);
  const std::vector<size_t> first(order.begin(), order.begin() + 16);
  EXPECT_EQ(first, (std::vector<size_t>{0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(TuningTiming, OneThatFailsIsLeftOut) {
  Device device;
  int attempts = 0;
  const auto run = [&](size_t i) {
    if (i == 1 && ++attempts) throw std::runtime_error("out of memory");
    device.now_ms += 1;
  };
  EXPECT_EQ(shortest_times(3, run, device), (std::vector<double>{1, kNever, 1}));
  EXPECT_EQ(attempts, 2);  // with and without the memory that fills the caches, and no more
}

TEST(TuningTiming, OneThatFailsLateIsLeftOut) {
  Device device;
  int runs = 0;
  const auto run = [&](size_t i) {
    if (i == 0 && ++runs > 8) throw std::runtime_error("out of memory");
    device.now_ms += 1;
  };
  EXPECT_EQ(shortest_times(2, run, device), (std::vector<double>{kNever, 1}));
}

TEST(TuningTiming, GivesUpFillingCachesBeforeAContender) {
  Device device;
  const auto run = [&](size_t) {
    if (device.has_filler) throw std::runtime_error("out of memory");
    device.now_ms += 1;
  };
  EXPECT_EQ(shortest_times(2, run, device), (std::vector<double>{1, 1}));
}

TEST(TuningTiming, AllMayFail) {
  Device device;
  const auto run = [](size_t) { throw std::runtime_error("out of memory"); };
  EXPECT_EQ(shortest_times(2, run, device), (std::vector<double>{kNever, kNever}));
}

std::optional<size_t> least(const std::vector<double>& times) {
  const auto found = std::min_element(times.begin(), times.end());
  if (*found == kNever) return std::nullopt;
  return found - times.begin();
}

// A problem with three contenders, and what was asked.
struct Asked {
  Store store{{.here = {}}};
  std::atomic<int> timings = 0;
  std::function<std::vector<double>()> time = [] { return std::vector<double>{3, 1, 2}; };

  Question question() {
    return {.store = store,
            .environment = kHere,
            .problem = "a problem",
            .contenders = {{"halo", "a"}, {"halo", "b"}, {"aten", ""}},
            .time =
                [this] {
                  ++timings;
                  return time();
                },
            .fastest_of = least};
  }
};

TEST(TuningDecision, IsTheFastestAndStays) {
  Asked asked;
  Decision decision;
  EXPECT_EQ(decision.made(), std::nullopt);
  EXPECT_EQ(decision.make(asked.question(), true), 1);
  asked.time = [] { return std::vector<double>{1, 2, 3}; };
  EXPECT_EQ(decision.make(asked.question(), true), 1);
  EXPECT_EQ(decision.made(), 1);
  EXPECT_EQ(asked.timings, 1);
  EXPECT_EQ(asked.store.find(kHere, "a problem"), (Record{"halo", "b", 1}));
}

// Two selections of one problem, as where all are forgotten while one is in use.
TEST(TuningDecision, TheFirstOfTwoStands) {
  Asked asked;
  Decision first, second;
  Question question = asked.question();
  question.time = [&] {
    EXPECT_EQ(second.make(asked.question(), true), 1);
    return std::vector<double>{1, 2, 3};
  };
  EXPECT_EQ(first.make(question, true), 1);
}

// What a cache forgot of a problem is decided anew, and the same again.
TEST(TuningDecision, OutlivesWhatTheCacheForgets) {
  Asked asked;
  EXPECT_EQ(Decision().make(asked.question(), true), 1);
  asked.time = [] { return std::vector<double>{1, 2, 3}; };
  EXPECT_EQ(Decision().make(asked.question(), true), 1);
  EXPECT_EQ(asked.timings, 1);
}

TEST(TuningDecision, ARecordOfAPlanThatIsGoneIsNone) {
  Asked asked;
  for (const Record& gone : {Record{"halo", "c", 0}, Record{"aten", "a", 0}}) {
    asked.store.clear();
    asked.store.add(kHere, "a problem", gone);
    EXPECT_EQ(Decision().make(asked.question(), true), 1);
  }
  EXPECT_EQ(asked.timings, 2);
}

TEST(TuningDecision, OtherEnvironmentsRecordsAreNone) {
  Asked asked;
  Environment other = kHere;
  other.device = "another chip";
  asked.store.add(other, "a problem", {"aten", "", 1});
  EXPECT_EQ(Decision().make(asked.question(), true), 1);
}

TEST(TuningDecision, WithoutWaitingIsTheModelsUntilThereIsOne) {
  Asked asked;
  Decision decision;
  EXPECT_EQ(decision.make(asked.question(), false), 0);
  EXPECT_EQ(decision.made(), std::nullopt);
  EXPECT_EQ(asked.timings, 0);
  EXPECT_EQ(decision.make(asked.question(), true), 1);
  EXPECT_EQ(decision.make(asked.question(), false), 1);
}

TEST(TuningDecision, WithoutWaitingTakesWhatIsOnRecord) {
  Asked asked;
  asked.store.add(kHere, "a problem", {"aten", "", 1});
  Decision decision;
  EXPECT_EQ(decision.make(asked.question(), false), 2);
  EXPECT_EQ(decision.made(), 2);
}

// Memory may be short in this process alone, or in this call.
TEST(TuningDecision, WithoutOneThatFailedHoldsForThisProcessAlone) {
  const Folder folder;
  Asked asked;
  asked.time = [] { return std::vector<double>{3, kNever, 2}; };
  EXPECT_EQ(Decision().make(asked.question(), true), 2);
  asked.store.save(folder / "1");
  EXPECT_TRUE(read_records(folder / "1").empty());
  asked.time = [] { return std::vector<double>{3, 1, 2}; };
  EXPECT_EQ(Decision().make(asked.question(), true), 2);
  EXPECT_EQ(asked.timings, 1);
  asked.store.clear();
  EXPECT_EQ(Decision().make(asked.question(), true), 1);
  asked.store.save(folder / "1");
  EXPECT_EQ(read_records(folder / "1"),
            (RecordsByEnvironment{{kHere, {{"a problem", {"halo", "b", 1}}}}}));
}

TEST(TuningDecision, WhereAllFailALaterCallTriesAgain) {
  Asked asked;
  Decision decision;
  asked.time = [] { return std::vector<double>(3, kNever); };
  EXPECT_EQ(decision.make(asked.question(), true), 0);
  EXPECT_EQ(decision.made(), std::nullopt);
  EXPECT_EQ(asked.store.find(kHere, "a problem"), std::nullopt);
  asked.time = []() -> std::vector<double> { throw std::runtime_error("a broken device"); };
  EXPECT_THROW(decision.make(asked.question(), true), std::runtime_error);
  asked.time = [] { return std::vector<double>{3, 2, 1}; };
  EXPECT_EQ(decision.make(asked.question(), true), 2);
}

TEST(TuningDecision, ThreadsTimeOnceAndAgree) {
  constexpr int kThreads = 8;
  Asked asked;
  asked.time = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return std::vector<double>{3, 2, 1};
  };
  Decision decision;
  std::barrier start(kThreads);
  std::vector<size_t> made(kThreads);
  {
    std::vector<std::jthread> threads;
    for (size_t& each : made) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        each = decision.make(asked.question(), true);
      });
    }
  }
  EXPECT_EQ(made, std::vector<size_t>(kThreads, 2));
  EXPECT_EQ(asked.timings, 1);
}

TEST(TuningDecision, ACaptureWaitsForNoTiming) {
  Asked asked;
  std::barrier timing(2);
  asked.time = [&] {
    timing.arrive_and_wait();
    timing.arrive_and_wait();
    return std::vector<double>{3, 2, 1};
  };
  Decision decision;
  std::jthread other([&] { decision.make(asked.question(), true); });
  timing.arrive_and_wait();
  EXPECT_EQ(decision.make(asked.question(), false), 0);
  timing.arrive_and_wait();
  other.join();
  EXPECT_EQ(decision.make(asked.question(), false), 2);
}

}  // namespace
}  // namespace haloconv::tuning
