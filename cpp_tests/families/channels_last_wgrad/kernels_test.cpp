// Weight gradients with channels innermost: every plan exact on small integers, near infinities and
// NaN too, with tensors that are slices of others. Needs a Hopper GPU, not torch.
#include <gtest/gtest.h>

#include <vector>

#include "conv2d/geometry/full_filter.h"
#include "conv2d/geometry/integers.h"
#include "cpp_tests/channels_last_fixtures.h"
#include "cpp_tests/slices.h"
#include "cpp_tests/wgrad_check.h"

namespace haloconv::testing {
namespace {

constexpr char kFamily[] = "channels_last_wgrad";
constexpr DataType kTypes[] = {DataType::kFloat16, DataType::kBFloat16};

class ChannelsLastWgrad : public HopperChannelsLast {};

TEST_P(ChannelsLastWgrad, IsExactOnSmallIntegers) { check_wgrad(kFamily, problem_, gpu()); }

TEST_P(ChannelsLastWgrad, LetsInfinitiesReachTheirTapsAlone) {
  check_wgrad_near_infinities(kFamily, problem_, gpu());
}

TEST_P(ChannelsLastWgrad, LetsManyInfinitiesReachTheirTapsAlone) {
  check_wgrad_of_many_infinities(kFamily, problem_, gpu());
}

TEST_P(ChannelsLastWgrad, LetsInfiniteEndsOfRowsReachTheirTapsAlone) {
  check_wgrad_of_infinite_ends(kFamily, problem_, gpu());
}

TEST_P(ChannelsLastWgrad, TakesSlices) {
  Conv2dProblem p = problem_;
  p.input = channels_last_slice(p.c, p.h, p.w);
  p.output = channels_last_slice(p.k, p.p(), p.q());
  check_wgrad(kFamily, p, gpu());
}

INSTANTIATE_TEST_SUITE_P(Eights, ChannelsLastWgrad,
                         ::testing::ValuesIn(typed_shapes("eights", kTypes)), name_of_typed);

// Clusters of five blocks add the sums of a plan's 20 tiles.
INSTANTIATE_TEST_SUITE_P(Fives, ChannelsLastWgrad,
                         ::testing::ValuesIn(typed_shapes({"fives n4c264h20w20 k256r1s1"}, kTypes)),
                         name_of_typed);

// Where the output's gradient has its rows innermost, in whole 16 bytes from row to row, and the
// other tensors their channels.
class ChannelsLastWgradOfRows : public ChannelsLastWgrad {
 protected:
  ChannelsLastWgradOfRows() {
    const int64_t pitch = round_up(problem_.q(), 8) + 8, plane = problem_.p() * pitch + 8;
    problem_.output = {.n = problem_.k * plane + 16, .c = plane, .h = pitch, .w = 1};
  }
};

std::vector<TypedShape> shapes_whose_taps_share_boxes() {
  std::vector<TypedShape> shapes = typed_shapes("eights", kTypes);
  std::erase_if(shapes, [](const TypedShape& shape) {
    const Conv2dProblem& problem = shape.problem;
    return problem.s < 2 || problem.stride_w != 1 || as_one_pixel(problem).has_value();
  });
  return shapes;
}

TEST_P(ChannelsLastWgradOfRows, IsExactOnSmallIntegers) { check_wgrad(kFamily, problem_, gpu()); }

TEST_P(ChannelsLastWgradOfRows, LetsInfinitiesReachTheirTapsAlone) {
  check_wgrad_near_infinities(kFamily, problem_, gpu());
}

TEST_P(ChannelsLastWgradOfRows, LetsManyInfinitiesReachTheirTapsAlone) {
  check_wgrad_of_many_infinities(kFamily, problem_, gpu());
}

TEST_P(ChannelsLastWgradOfRows, LetsInfiniteEndsOfRowsReachTheirTapsAlone) {
  check_wgrad_of_infinite_ends(kFamily, problem_, gpu());
}

TEST_P(ChannelsLastWgradOfRows, TakesSlicesOfTheInput) {
  Conv2dProblem p = problem_;
  p.input = channels_last_slice(p.c, p.h, p.w);
  check_wgrad(kFamily, p, gpu());
}

INSTANTIATE_TEST_SUITE_P(Eights, ChannelsLastWgradOfRows,
                         ::testing::ValuesIn(shapes_whose_taps_share_boxes()), name_of_typed);

}  // namespace
}  // namespace haloconv::testing
