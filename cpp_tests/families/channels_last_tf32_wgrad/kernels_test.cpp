// Weight gradients of float32 in TF32 with channels innermost: every plan exact on small integers,
// near infinities and NaN too, with tensors that are slices of others. Needs a Hopper GPU, not
// torch.
#include <gtest/gtest.h>

#include "cpp_tests/channels_last_fixtures.h"
#include "cpp_tests/slices.h"
#include "cpp_tests/wgrad_check.h"

namespace haloconv::testing {
namespace {

constexpr char kFamily[] = "channels_last_tf32_wgrad";
constexpr DataType kTypes[] = {DataType::kFloat32};

class ChannelsLastTf32Wgrad : public HopperChannelsLast {};

TEST_P(ChannelsLastTf32Wgrad, IsExactOnSmallIntegers) { check_wgrad(kFamily, problem_, gpu()); }

TEST_P(ChannelsLastTf32Wgrad, LetsInfinitiesReachTheirTapsAlone) {
  check_wgrad_near_infinities(kFamily, problem_, gpu());
}

TEST_P(ChannelsLastTf32Wgrad, LetsManyInfinitiesReachTheirTapsAlone) {
  check_wgrad_of_many_infinities(kFamily, problem_, gpu());
}

TEST_P(ChannelsLastTf32Wgrad, LetsInfiniteEndsOfRowsReachTheirTapsAlone) {
  check_wgrad_of_infinite_ends(kFamily, problem_, gpu());
}

TEST_P(ChannelsLastTf32Wgrad, TakesSlices) {
  Conv2dProblem p = problem_;
  p.input = channels_last_slice(p.c, p.h, p.w);
  p.output = channels_last_slice(p.k, p.p(), p.q());
  check_wgrad(kFamily, p, gpu());
}

INSTANTIATE_TEST_SUITE_P(Eights, ChannelsLastTf32Wgrad,
                         ::testing::ValuesIn(typed_shapes("eights", kTypes)), name_of_typed);

// 8 images of rows that are whole fours.
INSTANTIATE_TEST_SUITE_P(Fours, ChannelsLastTf32Wgrad,
                         ::testing::ValuesIn(typed_shapes({"fours n9c24h5w12 k72r3s3 pad=1,1,1,1"},
                                                          kTypes)),
                         name_of_typed);

}  // namespace
}  // namespace haloconv::testing
