// The Hopper kernels for filters of one tap where what they copy at once is not aligned, and where
// a block computes several tiles: exact on small integers, in all directions. Needs a Hopper GPU,
// not torch.
#include <gtest/gtest.h>

#include <sstream>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

// A tensor that begins so many elements after whole 256 bytes.
class OffsetTensor {
 public:
  OffsetTensor(std::vector<int64_t> at, DataType type, int64_t offset)
      : bytes_(offset * size_of(type)), tensor_(moved(std::move(at), offset), type) {}

  const OffsetTensor& set(const Values& values) {
    tensor_.set(values);
    return *this;
  }
  void expect(const Values& values, const std::string& what) const { tensor_.expect(values, what); }
  char* data() const { return tensor_.data() + bytes_; }

 private:
  static std::vector<int64_t> moved(std::vector<int64_t> at, int64_t offset) {
    for (int64_t& position : at) position += offset;
    return at;
  }

  int64_t bytes_;
  DeviceTensor tensor_;
};

class Sm90PointwiseKernels : public ::testing::TestWithParam<TypedShape> {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  }

  // Every plan of every direction, of tensors with the problem's strides.
  void check(const Conv2dProblem& p, int64_t offset = 0) const {
    // Of float32 it computes the filter's gradient alone, of tensors that begin at 16 bytes.
    const bool is_float32 = p.type == DataType::kFloat32;
    if (is_float32 && offset % 4 != 0) return;
    if (!is_float32) check_gather(p, Direction::kFprop, offset);
    if (!is_float32 && !HasFailure()) check_gather(p, Direction::kDgrad, offset);
    for (const bool with_bias : {false, true}) {
      if (!HasFailure()) check_wgrad(p, with_bias, offset);
    }
  }

 private:
  static std::vector<int64_t> input_at(const Conv2dProblem& p) {
    return positions(p.input, p.n, p.c, p.h, p.w);
  }
  static std::vector<int64_t> output_at(const Conv2dProblem& p) {
    return positions(p.output, p.n, p.k, p.h, p.w);
  }
  static std::vector<int64_t> filter_at(const Conv2dProblem& p) {
    return positions(p.filter, p.k, p.group_c(), 1, 1);
  }
  static std::vector<int64_t> bias_at(const Conv2dProblem& p) {
    return positions({1, 1, 1, 1}, p.k, 1, 1, 1);
  }
  static std::string text_of(const Conv2dProblem& p, const FamilyPlan& of, int64_t offset) {
    std::ostringstream text;
    text << p << " | " << of << " at " << offset;
    return text.str();
  }

  static void check_gather(const Conv2dProblem& p, Direction direction, int64_t offset) {
    const bool fprop = direction == Direction::kFprop;
    const Values source_values = small_integers(fprop ? input_count(p) : output_count(p), 1);
    const Values filter_values = small_integers(filter_count(p), 2);
    const Values bias_values = small_integers(p.k, 3);
    const Values expected = fprop ? reference_fprop(p, source_values, filter_values, bias_values)
                                  : reference_dgrad(p, source_values, filter_values);
    OffsetTensor source(fprop ? input_at(p) : output_at(p), p.type, offset);
    OffsetTensor filter(filter_at(p), p.type, offset), bias(bias_at(p), p.type, offset);
    source.set(source_values);
    filter.set(filter_values);
    bias.set(bias_values);
    const auto plans = plans_of("pointwise", {.problem = p, .direction = direction, .chip = gpu()});
    for (const FamilyPlan& of : plans) {
      const OffsetTensor result(fprop ? output_at(p) : input_at(p), p.type, offset);
      of.launch({.input = source.data(),
                 .filter = filter.data(),
                 .output = source.data(),
                 .result = result.data(),
                 .bias = fprop ? bias.data() : nullptr});
      result.expect(expected, text_of(p, of, offset));
      if (HasFailure()) return;
    }
    EXPECT_FALSE(plans.empty()) << p;
  }

  static void check_wgrad(const Conv2dProblem& p, bool with_bias, int64_t offset) {
    const Values gradients = small_integers(output_count(p), 1);
    const Values inputs = small_integers(input_count(p), 2);
    const Values expected = reference_wgrad(p, gradients, inputs);
    const Values expected_bias = reference_bias_grad(p, gradients);
    OffsetTensor dy(output_at(p), p.type, offset), x(input_at(p), p.type, offset);
    dy.set(gradients);
    x.set(inputs);
    const auto plans = plans_of(
        "pointwise",
        {.problem = p, .direction = Direction::kWgrad, .chip = gpu(), .with_bias = with_bias});
    for (const FamilyPlan& of : plans) {
      const OffsetTensor dw(filter_at(p), p.type, offset), db(bias_at(p), p.type, offset);
      const Buffer workspace(of.plan->workspace_bytes);
      of.launch({.input = x.data(),
                 .output = dy.data(),
                 .result = dw.data(),
                 .grad_bias = with_bias ? db.data() : nullptr,
                 .workspace = workspace.data()});
      dw.expect(expected, text_of(p, of, offset));
      if (with_bias) db.expect(expected_bias, text_of(p, of, offset) + " bias");
      EXPECT_TRUE(workspace.guards_are_whole()) << text_of(p, of, offset);
      if (HasFailure()) return;
    }
    EXPECT_FALSE(plans.empty()) << p;
  }
};

TEST_P(Sm90PointwiseKernels, AreExactAtAnyAddress) {
  for (const int64_t offset : {0, 1, 2, 4}) {
    if (!HasFailure()) check(GetParam().problem, offset);
  }
}

// Channels and images apart, as slices leave them, but no rows.
TEST_P(Sm90PointwiseKernels, AreExactWithPlanesApart) {
  for (const int64_t gap : {1, 2, 4}) {
    Conv2dProblem p = GetParam().problem;
    const int64_t plane = p.h * p.w + gap;
    p.input = {p.c * plane + gap, plane, p.w, 1};
    p.output = {p.k * plane + gap, plane, p.w, 1};
    p.filter.n += gap;
    if (!HasFailure()) check(p);
  }
}

// The edge shapes of one tap, and one with more tiles than an H200 has blocks of them.
std::vector<TypedShape> shapes_of_one_tap() {
  std::vector<TypedShape> taken;
  for (const TypedShape& shape : typed_edges(kSm90Types)) {
    // Unfolded ones have tests of their own.
    const bool is_one_tap = shape.problem.stride_h * shape.problem.stride_w == 1;
    if (is_one_tap &&
        !plans_of("pointwise", {.problem = shape.problem, .direction = Direction::kWgrad})
             .empty()) {
      taken.push_back(shape);
    }
  }
  Conv2dProblem many_tiles = parse_shape("a n1c136h190w180 k24r1s1").problem;
  many_tiles.type = DataType::kBFloat16;
  taken.push_back({"many_tiles_bfloat16", many_tiles});
  many_tiles.type = DataType::kFloat32;
  taken.push_back({"many_tiles", many_tiles});
  // Images of 49 pixels, which weight gradients take one after the other.
  for (const DataType type : kSm90Types) {
    Conv2dProblem small_maps = parse_shape("a n8c40h7w7 k136r1s1").problem;
    small_maps.type = type;
    std::ostringstream name;
    name << "small_maps_" << type;
    taken.push_back({name.str(), small_maps});
  }
  return taken;
}

INSTANTIATE_TEST_SUITE_P(OneTap, Sm90PointwiseKernels, ::testing::ValuesIn(shapes_of_one_tap()),
                         name_of_typed);

}  // namespace
}  // namespace haloconv::testing
