// Problems with rows innermost, whose tensors are copied for the kernels of channels innermost:
// every plan exact on small integers, of slices and of tensors at odd addresses too, with an
// epilogue, near infinities. Needs a Hopper GPU, not torch.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/fused_operands.h"
#include "cpp_tests/plan_sample.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/slices.h"
#include "cpp_tests/typed_shapes.h"
#include "cpp_tests/wgrad_check.h"

namespace haloconv::testing {
namespace {

// Those without groups.
std::vector<TypedShape> shapes_of(const char* file) {
  std::vector<TypedShape> shapes = typed_shapes(file, kSm90Types);
  std::erase_if(shapes, [](const TypedShape& shape) { return shape.problem.groups != 1; });
  return shapes;
}

class Relaid : public ::testing::TestWithParam<TypedShape> {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  }

  // What a call has beside source and filter, empty where it is left out.
  struct Extras {
    Values bias = {}, scale = {}, shift = {}, residual = {};
    Activation activation = {};
  };

  // All plans for fprop or dgrad. The source begins so many elements after whole 16 bytes.
  void check(const Conv2dProblem& p, Direction direction, const Values& source_values,
             const Values& filter_values, const Extras& extras, const Values& expected,
             int64_t offset = 0) const {
    const bool fprop = direction == Direction::kFprop;
    const auto input_at = positions(p.input, p.n, p.c, p.h, p.w);
    const auto output_at = positions(p.output, p.n, p.k, p.p(), p.q());
    auto source_at = fprop ? input_at : output_at;
    for (int64_t& at : source_at) at += offset;
    const auto& result_at = fprop ? output_at : input_at;
    DeviceTensor source(source_at, p.type);
    DeviceTensor filter(positions(p.filter, p.k, p.group_c(), p.r, p.s), p.type);
    DeviceTensor bias(positions({1, 1, 1, 1}, result_channels(p, direction), 1, 1, 1), p.type);
    source.set(source_values);
    filter.set(filter_values);
    const void* const bias_data = extras.bias.empty() ? nullptr : bias.set(extras.bias).data();
    const FusedOperands fused(p, direction, extras.scale, extras.shift, extras.residual,
                              extras.activation);
    const Fusion& fusion = fused.fusion();
    const char* const source_data = source.data() + offset * size_of(p.type);
    PlanSample sample;
    for (const FamilyPlan& of : plans_of(
             "relaid",
             {.problem = p, .direction = direction, .chip = gpu(), .is_aligned = offset == 0})) {
      if (!sample.takes(of)) continue;
      if (!fusion.is_none() && !of.plan->takes_fusion) continue;
      if (bias_data != nullptr && !of.plan->takes_bias) continue;
      const std::string what = text_of(p, of);
      DeviceTensor result(result_at, p.type);
      Buffer workspace(of.plan->workspace_bytes);
      of.launch({.input = fprop ? source_data : nullptr,
                 .filter = filter.data(),
                 .output = fprop ? nullptr : source_data,
                 .result = result.data(),
                 .bias = bias_data,
                 .fusion = fusion,
                 .workspace = workspace.data()});
      result.expect(expected, what);
      EXPECT_TRUE(workspace.guards_are_whole()) << what << ": wrote outside its workspace";
      if (HasFailure()) return;
    }
  }

  void check_wgrad_plans(const Conv2dProblem& p, const Values& grad_output, const Values& input,
                         int64_t offset = 0) const {
    const WgradCheck wgrad(p, grad_output, input, offset);
    for (const bool with_bias : {false, true}) {
      PlanSample sample;
      for (const FamilyPlan& of : plans_of("relaid", {.problem = p,
                                                      .direction = Direction::kWgrad,
                                                      .chip = gpu(),
                                                      .with_bias = with_bias,
                                                      .is_aligned = offset == 0})) {
        if (sample.takes(of)) wgrad.run(of, with_bias);
        if (HasFailure()) return;
      }
    }
  }

  void check_all(const Conv2dProblem& p, const Values& input, const Values& grad_output,
                 int64_t offset = 0) const {
    const Values filter = small_integers(filter_count(p), 2);
    check(p, Direction::kFprop, input, filter, {}, reference_fprop(p, input, filter, {}), offset);
    check(p, Direction::kDgrad, grad_output, filter, {}, reference_dgrad(p, grad_output, filter),
          offset);
    check_wgrad_plans(p, grad_output, input, offset);
  }

  Values input() const { return small_integers(input_count(p_), 1); }
  Values grad_output() const { return small_integers(output_count(p_), 4); }

  const Conv2dProblem p_ = GetParam().problem;
};

TEST_P(Relaid, IsExactOnSmallIntegers) { check_all(p_, input(), grad_output()); }

TEST_P(Relaid, TakesSlices) {
  Conv2dProblem p = p_;
  p.input = rows_slice(p.c, p.h, p.w);
  p.output = rows_slice(p.k, p.p(), p.q());
  check_all(p, input(), grad_output());
}

TEST_P(Relaid, TakesFiltersByTaps) {
  Conv2dProblem p = p_;
  p.filter = filter_by_taps(p);
  const Values filter = small_integers(filter_count(p), 2);
  check(p, Direction::kFprop, input(), filter, {}, reference_fprop(p, input(), filter, {}));
  check(p, Direction::kDgrad, grad_output(), filter, {}, reference_dgrad(p, grad_output(), filter));
}

// Of whole 16 bytes of channels weight gradients alone.
TEST_P(Relaid, TakesChannelsInnermost) {
  Conv2dProblem p = p_;
  p.set_dense_strides(true);
  check_all(p, input(), grad_output());
}

TEST_P(Relaid, TakesTensorsAtOddAddresses) { check_all(p_, input(), grad_output(), 1); }

TEST_P(Relaid, LetsInfinitiesReachTheirTapsAlone) {
  Values inputs = input(), grad_outputs = grad_output();
  make_some_not_finite(inputs, p_.n, p_.c, p_.h, p_.w);
  make_some_not_finite(grad_outputs, p_.n, p_.k, p_.p(), p_.q());
  const Values filter = small_integers(filter_count(p_), 2);
  check(p_, Direction::kFprop, inputs, filter, {}, reference_fprop(p_, inputs, filter, {}));
  check(p_, Direction::kDgrad, grad_outputs, filter, {}, reference_dgrad(p_, grad_outputs, filter));
  check_wgrad_plans(p_, grad_output(), inputs);
}

TEST_P(Relaid, ComputesAnEpilogue) {
  const Activation relu = {ActivationKind::kRelu};
  const Activation leaky_relu = {.kind = ActivationKind::kLeakyRelu, .a = 0.5};
  const Values filter = small_integers(filter_count(p_), 2);
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
    const bool fprop = direction == Direction::kFprop;
    const int64_t channels = fprop ? p_.k : p_.c;
    const Values bias = small_integers(channels, 3), scale = small_integers(channels, 5),
                 shift = small_integers(channels, 6),
                 residual = small_integers(fprop ? output_count(p_) : input_count(p_), 7);
    const Values source = fprop ? input() : grad_output();
    for (const Extras& extras :
         {Extras{.bias = bias}, Extras{.bias = bias, .activation = relu},
          Extras{.bias = bias, .residual = residual, .activation = relu},
          Extras{.bias = bias, .scale = scale, .shift = shift, .residual = residual},
          Extras{.scale = scale, .shift = shift, .activation = leaky_relu}}) {
      const Values no_bias(static_cast<size_t>(channels), 0);
      const Values& given = extras.bias.empty() ? no_bias : extras.bias;
      const Values sums = fprop ? reference_fprop(p_, source, filter, given)
                                : reference_dgrad_with_bias(p_, source, filter, given);
      check(p_, direction, source, filter, extras,
            reference_fused(p_, direction, sums, extras.scale, extras.shift, extras.residual,
                            extras.activation));
    }
  }
}

// Whose strides are folded into channels: in units and without, with channels in no whole eights;
// and groups that are merged, which have weight gradients alone.
std::vector<TypedShape> shapes_of_blocks() {
  return typed_shapes(
      {"fold_2x2       n2c3h24w40 k8r4s4 stride=2,2 pad=1,1,1,1",
       "fold_units     n2c3h24w40 k24r4s4 stride=2,2",
       "fold_8x8       n2c21h32w40 k21r16s16 stride=8,8 pad=4,4,4,4",
       "fold_one       n3c1h20w23 k56r9s9 stride=3,3 pad=4,4,4,4",
       "fold_uneven    n2c2h17w40 k16r2s8 stride=2,4 pad=1,0,3,2",
       "fold_row       n2c6h1w80 k8r1s10 stride=1,5 pad=0,0,5,0",
       "fold_vector    n2c16h16w16 k24r16s16 stride=16,16",
       "merge_4x4      n2c32h20w24 k32r4s4 stride=2,2 pad=1,1,1,1 groups=8",
       "merge_square   n2c128h14w16 k128r3s3 pad=1,1,1,1 groups=32",
       "merge_filters  n2c12h7w9 k36r3s3 pad=1,1,1,1 groups=6",
       "merge_odd      n1c35h6w5 k21r1s2 groups=7", "merge_two      n1c24h6w5 k6r3s2 groups=3"},
      kSm90Types);
}

INSTANTIATE_TEST_SUITE_P(Blocks, Relaid, ::testing::ValuesIn(shapes_of_blocks()), name_of_typed);
INSTANTIATE_TEST_SUITE_P(Edges, Relaid, ::testing::ValuesIn(shapes_of("edges")), name_of_typed);
INSTANTIATE_TEST_SUITE_P(Eights, Relaid, ::testing::ValuesIn(shapes_of("eights")), name_of_typed);

}  // namespace
}  // namespace haloconv::testing
