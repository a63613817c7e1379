// Every plan that the Hopper planner can return, on every edge shape: exact on small integers,
// every element written, nothing outside touched. Needs a Hopper GPU, not torch.
#include <gtest/gtest.h>

#include <sstream>

#include "conv2d/conv2d.h"
#include "conv2d/sm90/plan.h"
#include "cpp_tests/device_tensor.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

// Images and channels apart, rows with a pitch that no vector fits: what slices and padding leave.
Strides apart(int64_t c, int64_t h, int64_t w) {
  const int64_t pitch = w + 3, plane = h * pitch + 5;
  return {c * plane + 7, plane, pitch, 1};
}

class Sm90Kernels : public ::testing::TestWithParam<Shape> {
 protected:
  // Every plan of both directions, with dense and with strided operands.
  void check_all(bool splits) {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
    const Conv2dProblem& p = GetParam().problem;
    input_ = small_integers(input_count(p), 1);
    filter_ = small_integers(filter_count(p), 2);
    bias_ = small_integers(p.k, 3);
    grad_output_ = small_integers(output_count(p), 4);
    for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
      if (!sm90::declines(p, direction, gpu(), true).empty()) continue;
      const bool fprop = direction == Direction::kFprop;
      const Values expected = fprop ? reference_fprop(p, input_, filter_, bias_)
                                    : reference_dgrad(p, grad_output_, filter_);
      check(p, direction, splits, expected);
      Conv2dProblem strided = p;  // the operand alone: results are dense
      (fprop ? strided.input : strided.output) =
          fprop ? apart(p.c, p.h, p.w) : apart(p.k, p.p(), p.q());
      if (!HasFatalFailure()) check(strided, direction, splits, expected);
    }
  }

 private:
  void check(const Conv2dProblem& p, Direction direction, bool splits, const Values& expected) {
    const bool fprop = direction == Direction::kFprop;
    const Device device = gpu();
    ASSERT_EQ(sm90::declines(p, direction, device, true), "");
    DeviceTensor source(fprop ? positions(p.input, p.n, p.c, p.h, p.w)
                              : positions(p.output, p.n, p.k, p.p(), p.q()),
                        p.type);
    DeviceTensor filter(positions(p.filter, p.k, p.group_c(), p.r, p.s), p.type);
    DeviceTensor bias(positions({1, 1, 1, 1}, p.k, 1, 1, 1), p.type);
    source.set(fprop ? input_ : grad_output_);
    filter.set(filter_);
    bias.set(bias_);
    for (const sm90::Plan& plan : sm90::make_plans(p, direction, device)) {
      if ((plan.splits > 1) != splits) continue;
      std::ostringstream what;
      what << p << " | " << plan;
      DeviceTensor result(fprop ? positions(p.output, p.n, p.k, p.p(), p.q())
                                : positions(p.input, p.n, p.c, p.h, p.w),
                          p.type);
      Buffer workspace(plan.workspace_bytes);
      if (fprop) {
        conv2d_fprop(p, plan, source.data(), filter.data(), bias.data(), result.data(),
                     workspace.data(), nullptr);
      } else {
        conv2d_dgrad(p, plan, source.data(), filter.data(), result.data(), workspace.data(),
                     nullptr);
      }
      result.expect(expected, what.str());
      EXPECT_TRUE(workspace.guards_are_whole()) << what.str() << ": wrote outside its workspace";
      if (HasFatalFailure()) return;
    }
  }

  Values input_, filter_, bias_, grad_output_;
};

TEST_P(Sm90Kernels, AreExactOnSmallIntegers) { check_all(false); }

TEST_P(Sm90Kernels, WithSplitsAreExactOnSmallIntegers) { check_all(true); }

INSTANTIATE_TEST_SUITE_P(Edges, Sm90Kernels, ::testing::ValuesIn(load_shapes("edges")),
                         name_of_shape);

}  // namespace
}  // namespace haloconv::testing
