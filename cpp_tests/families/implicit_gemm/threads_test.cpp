// Several threads launch one kernel at once, for problems of which one's blocks need more shared
// memory than the other's: each call lets the kernel use enough for both, so that none fails where
// another thread's comes between it and its launch. Needs a GPU of compute capability 8.0 or later,
// not torch.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <deque>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "conv2d/families/implicit_gemm/plan.h"
#include "conv2d/families/implicit_gemm/windows_wgrad/plan.h"
#include "cpp_tests/channels_last_fixtures.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/reference_conv2d.h"

namespace haloconv::testing {
namespace {

constexpr int kThreadsOfProblem = 2, kLaunches = 2000;

int shared_bytes_of(const implicit_gemm::Plan& plan) {
  return shared_bytes(plan.tile, plan.launches.front());
}

int shared_bytes_of(const windows_wgrad::Plan& plan) { return shared_bytes(plan.tile, plan.args); }

bool has_windows(const implicit_gemm::Plan& plan) { return plan.windows().count > 0; }
bool has_windows(const windows_wgrad::Plan&) { return true; }

// What a thread launches: a plan of a problem, with tensors of its own.
class Launches {
 public:
  Launches(const FamilyPlan& of, const Conv2dProblem& p, Direction direction)
      : of_(of),
        input_(positions(p.input, p.n, p.c, p.h, p.w), p.type),
        filter_(positions(p.filter, p.k, p.group_c(), p.r, p.s), p.type),
        output_(positions(p.output, p.n, p.k, p.p(), p.q()), p.type),
        workspace_(of.plan->workspace_bytes),
        is_wgrad_(direction == Direction::kWgrad) {
    const Values input = small_integers(input_count(p), 1);
    input_.set(input);
    if (is_wgrad_) {
      const Values grad_output = small_integers(output_count(p), 2);
      output_.set(grad_output);
      expected_ = reference_wgrad(p, grad_output, input);
    } else {
      const Values filter = small_integers(filter_count(p), 2);
      filter_.set(filter);
      expected_ = reference_fprop(p, input, filter, {});
    }
  }

  // What went wrong, or "".
  std::string run() const {
    try {
      cudaStream_t stream = nullptr;
      if (cudaStreamCreate(&stream) != cudaSuccess) return "no stream";
      for (int i = 0; i < kLaunches; ++i) of_.family->launch(*of_.plan, operands(), stream);
      cudaStreamSynchronize(stream);
      cudaStreamDestroy(stream);
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  void expect() const { (is_wgrad_ ? filter_ : output_).expect(expected_, of_.plan->text()); }

 private:
  Operands operands() const {
    if (is_wgrad_) {
      return {.input = input_.data(),
              .output = output_.data(),
              .result = filter_.data(),
              .workspace = workspace_.data()};
    }
    return {.input = input_.data(),
            .filter = filter_.data(),
            .result = output_.data(),
            .workspace = workspace_.data()};
  }

  FamilyPlan of_;
  DeviceTensor input_, filter_, output_;
  Buffer workspace_;
  bool is_wgrad_;
  Values expected_;
};

// Two plans of one kernel, whose shared memory differs the most.
struct Pair {
  FamilyPlan small, large;
  int more_bytes = 0;
};

template <class Plan>
Pair furthest_pair(const std::vector<FamilyPlan>& small, const std::vector<FamilyPlan>& large) {
  Pair furthest{};
  for (const FamilyPlan& one : small) {
    const Plan& of_one = made_by_family<Plan>(*one.plan).details;
    for (const FamilyPlan& other : large) {
      const Plan& of_other = made_by_family<Plan>(*other.plan).details;
      if (of_one.tile != of_other.tile || !has_windows(of_one) || !has_windows(of_other)) continue;
      const int more = shared_bytes_of(of_other) - shared_bytes_of(of_one);
      if (more > furthest.more_bytes) furthest = {one, other, more};
    }
  }
  return furthest;
}

class LaunchesByThreads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability < 80) {
      GTEST_SKIP() << "needs a GPU of compute capability 8.0 or later";
    }
  }

  // Of a 3x3 and a 5x5 filter, whose windows are larger.
  template <class Plan>
  void check(const char* family, Direction direction, bool channels_last) {
    Conv2dProblem small = channels_last_problem("n1c64h16w16 k64r3s3 pad=1,1,1,1");
    Conv2dProblem large = channels_last_problem("n1c64h16w16 k64r5s5 pad=2,2,2,2");
    small.set_dense_strides(channels_last);
    large.set_dense_strides(channels_last);
    const auto plans = [&](const Conv2dProblem& p) {
      return plans_of(family, {.problem = p, .direction = direction, .chip = gpu()});
    };
    const Pair pair = furthest_pair<Plan>(plans(small), plans(large));
    ASSERT_GT(pair.more_bytes, 0);
    std::deque<Launches> launches;
    for (int i = 0; i < kThreadsOfProblem; ++i) {
      launches.emplace_back(pair.small, small, direction);
      launches.emplace_back(pair.large, large, direction);
    }
    std::vector<std::string> errors(launches.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < launches.size(); ++i) {
      threads.emplace_back([&, i] { errors[i] = launches[i].run(); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& error : errors) EXPECT_EQ(error, "");
    for (const Launches& of : launches) of.expect();
  }
};

TEST_F(LaunchesByThreads, OfWindowsOfUnits) {
  check<implicit_gemm::Plan>("implicit_gemm", Direction::kFprop, true);
}

TEST_F(LaunchesByThreads, OfWindowsOfRows) {
  check<implicit_gemm::Plan>("implicit_gemm", Direction::kFprop, false);
}

TEST_F(LaunchesByThreads, OfWeightGradients) {
  check<windows_wgrad::Plan>("windows_wgrad", Direction::kWgrad, false);
}

}  // namespace
}  // namespace haloconv::testing
