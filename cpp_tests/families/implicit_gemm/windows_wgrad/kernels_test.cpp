// Weight and bias gradients by windows of the input: every plan exact on small integers, with the
// shared memory of a smaller chip too, in slices of tensors, with groups, near infinities. Needs a
// GPU of compute capability 8.0 or later, not torch.
#include <gtest/gtest.h>

#include "conv2d/families/implicit_gemm/windows_wgrad/plan.h"
#include "cpp_tests/channels_last_fixtures.h"
#include "cpp_tests/slices.h"
#include "cpp_tests/wgrad_check.h"

namespace haloconv::testing {
namespace {

constexpr char kFamily[] = "windows_wgrad";
constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};

class WindowsWgrad : public Sm80ChannelsLast {
 protected:
  WindowsWgrad() { problem_.set_dense_strides(false); }
};

TEST_P(WindowsWgrad, IsExactOnSmallIntegers) { check_wgrad(kFamily, problem_, gpu()); }

// With one multiprocessor a block has many patches.
TEST_P(WindowsWgrad, IsExactOnASmallerChip) {
  Chip chip = with_shared_memory(99);
  chip.multiprocessors = 1;
  if (windows_wgrad::make_plans(problem_, chip, true, true).empty()) {
    GTEST_SKIP() << "no window fits";
  }
  check_wgrad(kFamily, problem_, chip);
}

TEST_P(WindowsWgrad, TakesSlices) {
  Conv2dProblem p = problem_;
  const auto slice = [](int64_t c, int64_t h, int64_t w) {
    const int64_t row = (w + 5) / 4 * 4, plane = row * (h + 1);
    return Strides{.n = plane * (c + 2), .c = plane, .h = row, .w = 1};
  };
  p.input = slice(p.c, p.h, p.w);
  p.output = slice(p.k, p.p(), p.q());
  check_wgrad(kFamily, p, gpu());
}

TEST_P(WindowsWgrad, TakesGroups) {
  Conv2dProblem p = in_groups();
  p.set_dense_strides(false);
  check_wgrad(kFamily, p, gpu());
}

TEST_P(WindowsWgrad, LetsInfinitiesReachTheirTapsAlone) {
  check_wgrad_near_infinities(kFamily, problem_, gpu());
}

// That the family takes with rows innermost.
std::vector<TypedShape> shapes() {
  std::vector<TypedShape> taken;
  for (const TypedShape& shape : typed_shapes("eights", kTypes)) {
    Conv2dProblem p = shape.problem;
    p.set_dense_strides(false);
    const Chip chip = chip_of("NVIDIA H200");
    if (windows_wgrad::declines(p, Direction::kWgrad, chip, true).empty() &&
        !windows_wgrad::make_plans(p, chip, true, true).empty()) {
      taken.push_back(shape);
    }
  }
  return taken;
}

INSTANTIATE_TEST_SUITE_P(Eights, WindowsWgrad, ::testing::ValuesIn(shapes()), name_of_typed);

}  // namespace
}  // namespace haloconv::testing
