// Weight gradients as forward passes: the problems that stand for them, computed by the definition
// from what their operands point to, give the gradients. No GPU is needed.
#include "conv2d/families/relaid/products.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cpp_tests/family_plans.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using namespace relaid;

Conv2dProblem rows_problem(const std::string& text, DataType type = DataType::kFloat32) {
  Conv2dProblem problem = channels_last_problem(text, type);
  problem.set_dense_strides(false);
  return problem;
}

// What a dense tensor in memory has at these strides, as dense (n, c, h, w) values.
Values read(const Values& memory, const Strides& at, int64_t n, int64_t c, int64_t h, int64_t w) {
  Values values;
  for (int64_t i = 0; i < n * c * h * w; ++i) {
    values.push_back(memory.at(i / (c * h * w) * at.n + i / (h * w) % c * at.c + i / w % h * at.h +
                               i % w * at.w));
  }
  return values;
}

// (channels, pixels) as (pixels, channels), or the other way.
Values turned(const Values& values, int64_t rows, int64_t columns) {
  Values to;
  for (int64_t i = 0; i < rows * columns; ++i)
    to.push_back(values.at(i % rows * columns + i / rows));
  return to;
}

// The copy that unfold.h describes.
Values unfolded(const Unfold& of, const Values& input) {
  Values copy;
  const int64_t channels = of.c.divisor, pixels = of.pixels(), taps = of.taps_h * of.taps_w;
  for (int64_t i = 0; i < of.n * of.channels() * pixels; ++i) {
    const int64_t pixel = i % pixels, tap = i / pixels % taps, plane = i / (pixels * taps);
    const int64_t h = pixel / of.q * of.stride_h + tap / of.taps_w * of.dilation_h - of.pad_top;
    const int64_t w = pixel % of.q * of.stride_w + tap % of.taps_w * of.dilation_w - of.pad_left;
    const bool exists = h >= 0 && h < of.h && w >= 0 && w < of.w;
    copy.push_back(!exists ? 0
                           : input.at(plane / channels * of.input_n +
                                      plane % channels * of.input_c + h * of.input_h + w));
  }
  return copy;
}

Values gradient_of(const RelaidProblem& relaid, const Conv2dProblem& p, const Values& input,
                   const Values& grads) {
  const Conv2dProblem& to = relaid.problem;
  Values source, filter;
  if (relaid.product == Product::kOfPixels) {
    source = grads;
    filter = relaid.unfolded_input ? unfolded(*relaid.unfolded_input, input) : input;
  } else {
    source = turned(input, p.n, p.c * p.h * p.w);
    filter = turned(grads, p.n, p.k * p.p() * p.q());
  }
  const Values output = reference_fprop(to, read(source, to.input, to.n, to.c, to.h, to.w),
                                        read(filter, to.filter, to.k, to.c, to.r, to.s), {});
  Values result(filter_count(p));
  for (int64_t i = 0; i < std::ssize(output); ++i) {
    const int64_t q = i % to.q(), row = i / to.q() % to.p(), k = i / (to.q() * to.p()) % to.k;
    result.at(i / (to.q() * to.p() * to.k) * to.output.n + k * to.output.c + row * to.output.h +
              q * to.output.w) = output.at(i);
  }
  return relaid.filter ? turned(result, p.c * p.r * p.s, p.k) : result;
}

TEST(RelaidProducts, GiveTheWeightGradient) {
  int by_pixels = 0, by_images = 0;
  for (const char* text :
       {"n3c8h12w16 k16r2s2 stride=2,2", "n2c24h1w64 k8r1s16 stride=1,8 pad=0,0,4,4",
        "n16c8h8w8 k16r4s4 stride=2,2 pad=1,1,1,1",
        "n32c3h7w9 k8r3s2 stride=2,1 dil=1,2 pad=1,0,2,1", "n16c5h11w10 k24r2s3 stride=3,2",
        "n4c16h8w8 k24r1s1", "n2c8h9w16 k8r1s1 stride=2,2"}) {
    const Conv2dProblem p = rows_problem(text);
    const Values input = small_integers(input_count(p), 1);
    const Values grads = small_integers(output_count(p), 3);
    const auto products = products_of(p, true);
    EXPECT_FALSE(products.empty()) << p;
    for (const RelaidProblem& relaid : products) {
      ++(relaid.product == Product::kOfPixels ? by_pixels : by_images);
      EXPECT_EQ(gradient_of(relaid, p, input, grads), reference_wgrad(p, grads, input)) << p;
    }
  }
  EXPECT_GE(by_pixels, 4);
  EXPECT_GE(by_images, 3);
}

TEST(RelaidProducts, AreMadeOfWholeUnitsInRows) {
  const auto count = [](const Conv2dProblem& p, bool is_aligned = true) {
    return products_of(p, is_aligned).size();
  };
  EXPECT_EQ(count(rows_problem("n32c8h8w8 k16r4s4 stride=2,2 pad=1,1,1,1")), 2u);
  EXPECT_EQ(count(rows_problem("n32c8h8w8 k16r4s4 stride=2,2 pad=1,1,1,1"), false), 0u);
  EXPECT_EQ(count(rows_problem("n4c8h8w8 k16r3s3 pad=1,1,1,1")), 0u) << "many copies, few images";
  EXPECT_EQ(count(rows_problem("n2c8h10w10 k16r2s2 stride=2,2")), 0u) << "25 pixels";
  EXPECT_EQ(count(rows_problem("n2c8h8w8 k16r2s2 stride=2,2 groups=2")), 0u);
  Conv2dProblem p = rows_problem("n32c8h8w8 k16r2s2 stride=2,2");
  p.set_dense_strides(true);
  EXPECT_EQ(count(p), 0u);
}

TEST(RelaidProducts, AreInTheirPlansText) {
  const auto has = [](const char* text, std::string_view words, bool with_bias = false) {
    const auto plans = plans_of(
        "relaid",
        {.problem = rows_problem(text), .direction = Direction::kWgrad, .with_bias = with_bias});
    return std::any_of(plans.begin(), plans.end(),
                       [&](const FamilyPlan& of) { return of.says(words); });
  };
  const char* const unet = "n4c512h64w64 k1024r2s2 stride=2,2";
  const char* const dcgan = "n128c256h8w8 k512r4s4 stride=2,2 pad=1,1,1,1";
  EXPECT_TRUE(has(unet, "wgrad relaid as pixels input for channels_last (fprop "));
  EXPECT_TRUE(has(dcgan, "wgrad relaid as images input,filter,output for channels_last (fprop "));
  EXPECT_FALSE(has(dcgan, "relaid as images", true)) << "nothing sums the bias";
}

}  // namespace
}  // namespace haloconv::testing
