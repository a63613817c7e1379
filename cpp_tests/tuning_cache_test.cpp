// The cache of choices, and values that are made once, with threads that meet.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "registration/tuning/lru_cache.h"

namespace haloconv::tuning {
namespace {

using Cache = LruCache<int, int>;

std::unique_ptr<int> boxed(int value) { return std::make_unique<int>(value); }

// A value that was made shows in what the next look gives.
int value_of(Cache& cache, int key, int if_new) {
  return *cache.get(key, [&] { return boxed(if_new); });
}

TEST(TuningCache, MakesAValueOnce) {
  Cache cache(2);
  EXPECT_EQ(value_of(cache, 1, 10), 10);
  EXPECT_EQ(value_of(cache, 1, 11), 10);
}

TEST(TuningCache, FindsOnlyWhatIsThere) {
  Cache cache(2);
  EXPECT_EQ(cache.find(1), nullptr);
  value_of(cache, 1, 10);
  ASSERT_NE(cache.find(1), nullptr);
  EXPECT_EQ(*cache.find(1), 10);
}

TEST(TuningCache, ForgetsTheLeastRecentlyUsed) {
  Cache cache(3);
  for (const int key : {1, 2, 3}) value_of(cache, key, key);
  value_of(cache, 1, 0);  // used again: 2 is now the oldest
  value_of(cache, 4, 4);
  EXPECT_EQ(cache.size(), 3);
  EXPECT_EQ(cache.find(2), nullptr);
  for (const int key : {1, 3, 4}) EXPECT_NE(cache.find(key), nullptr) << key;
}

TEST(TuningCache, ALookIsNoUse) {
  Cache cache(2);
  for (const int key : {1, 2}) value_of(cache, key, key);
  cache.find(1);
  value_of(cache, 3, 3);
  EXPECT_EQ(cache.find(1), nullptr);
}

TEST(TuningCache, KeepsWhatIsInUseHoweverManyCome) {
  Cache cache(2);
  const auto held = cache.get(1, [] { return boxed(10); });
  for (int key = 2; key < 100; ++key) value_of(cache, key, key);
  EXPECT_EQ(cache.size(), 2);
  EXPECT_EQ(cache.get(1, [] { return boxed(11); }), held);
}

TEST(TuningCache, MoreThanItHoldsMayBeInUse) {
  Cache cache(2);
  std::vector<std::shared_ptr<int>> held;
  for (int key = 0; key < 5; ++key) held.push_back(cache.get(key, [&] { return boxed(key); }));
  EXPECT_EQ(cache.size(), 5);
  held.clear();
  value_of(cache, 5, 5);
  EXPECT_EQ(cache.size(), 2);
  EXPECT_NE(cache.find(5), nullptr);
}

TEST(TuningCache, ClearForgetsAllButLetsUsersGoOn) {
  Cache cache(2);
  const auto held = cache.get(1, [] { return boxed(10); });
  cache.clear();
  EXPECT_EQ(cache.size(), 0);
  EXPECT_EQ(*held, 10);
  EXPECT_EQ(value_of(cache, 1, 11), 11);
}

TEST(TuningCache, AFailureLeavesNothingBehind) {
  Cache cache(2);
  const auto fail = []() -> std::unique_ptr<int> { throw std::runtime_error("no"); };
  EXPECT_THROW(cache.get(1, fail), std::runtime_error);
  EXPECT_EQ(cache.size(), 0);
  EXPECT_EQ(value_of(cache, 1, 11), 11);
}

constexpr int kThreads = 8;

// Runs body(thread) on all threads at once.
template <class Body>
void on_threads(const Body& body) {
  std::barrier start(kThreads);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      start.arrive_and_wait();
      body(thread);
    });
  }
}

TEST(TuningCacheThreads, ShareOneValue) {
  Cache cache(4);
  std::atomic<int> made = 0;
  std::vector<std::shared_ptr<int>> values(kThreads);
  on_threads([&](int thread) {
    values[thread] = cache.get(1, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the others come meanwhile
      return boxed(++made);
    });
  });
  EXPECT_EQ(made, 1);
  for (const auto& value : values) EXPECT_EQ(value, values[0]);
}

// While one thread makes a value, another gets a different one.
TEST(TuningCacheThreads, WaitForNoOtherKey) {
  Cache cache(4);
  std::barrier inside(2);
  std::jthread other([&] {
    cache.get(1, [&] {
      inside.arrive_and_wait();
      inside.arrive_and_wait();
      return boxed(1);
    });
  });
  inside.arrive_and_wait();
  EXPECT_EQ(value_of(cache, 2, 2), 2);
  EXPECT_EQ(cache.find(1), nullptr);
  inside.arrive_and_wait();
}

TEST(TuningCacheThreads, AFailureWakesTheOthers) {
  Cache cache(4);
  std::atomic<int> attempts = 0, failed = 0;
  on_threads([&](int) {
    try {
      cache.get(1, [&]() -> std::unique_ptr<int> {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (++attempts <= 3) throw std::runtime_error("no");
        return boxed(attempts);
      });
    } catch (const std::runtime_error&) {
      ++failed;
    }
  });
  EXPECT_EQ(failed, 3);
  EXPECT_EQ(attempts, 4);
  EXPECT_EQ(*cache.find(1), 4);
}

TEST(TuningCacheThreads, WhereAllFailNothingIsLeft) {
  Cache cache(4);
  on_threads([&](int) {
    const auto fail = []() -> std::unique_ptr<int> { throw std::runtime_error("no"); };
    EXPECT_THROW(cache.get(1, fail), std::runtime_error);
  });
  EXPECT_EQ(cache.size(), 0);
}

// While somebody holds a key's value, whoever else asks gets the same one, whatever comes and goes.
TEST(TuningCacheThreads, AgreeWhileEntriesComeAndGo) {
  constexpr int kKeys = 12, kCalls = 4000;
  Cache cache(3);
  std::atomic<int> serial = 0;
  on_threads([&](int thread) {
    unsigned state = thread + 1;
    for (int call = 0; call < kCalls; ++call) {
      state = state * 1664525 + 1013904223;
      const int key = static_cast<int>((state >> 16) % kKeys);
      const auto make = [&] { return boxed(++serial * kKeys + key); };
      const auto first = cache.get(key, make);
      ASSERT_EQ(*first % kKeys, key);
      ASSERT_EQ(cache.get(key, make), first);
    }
  });
  EXPECT_LE(cache.size(), 3 + kThreads);
}

TEST(TuningOnce, AnEmptyAnswerIsAskedForAgain) {
  Once<int> once;
  EXPECT_EQ(once.get([] { return std::optional<int>(); }), nullptr);
  EXPECT_EQ(once.peek(), nullptr);
  EXPECT_EQ(*once.get([] { return std::optional(7); }), 7);
  EXPECT_EQ(*once.get([] { return std::optional(8); }), 7);
  EXPECT_EQ(*once.peek(), 7);
}

TEST(TuningOnce, WhoMayNotWaitGetsNothing) {
  Once<int> once;
  std::barrier inside(2);
  std::jthread other([&] {
    once.get([&] {
      inside.arrive_and_wait();
      inside.arrive_and_wait();
      return std::optional(7);
    });
  });
  inside.arrive_and_wait();
  EXPECT_EQ(once.try_get([] { return std::optional(8); }), nullptr);
  inside.arrive_and_wait();
  other.join();
  EXPECT_EQ(*once.try_get([] { return std::optional(8); }), 7);
}

}  // namespace
}  // namespace haloconv::tuning
