#include "cpp_tests/shapes.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

namespace haloconv::testing {
namespace {

TEST(Shapes, ReadsEveryField) {
  const Shape shape =
      parse_shape("name n1c2h30w40 k5r6s7 stride=8,9 pad=1,2,3,4 dil=2,3 groups=1  # why");
  const Conv2dProblem& p = shape.problem;
  EXPECT_EQ(shape.name, "name");
  EXPECT_EQ(shape.reason, "why");
  EXPECT_EQ((std::vector<int64_t>{p.n, p.c, p.h, p.w, p.k, p.r, p.s}),
            (std::vector<int64_t>{1, 2, 30, 40, 5, 6, 7}));
  EXPECT_EQ((std::vector<int64_t>{p.stride_h, p.stride_w, p.pad_top, p.pad_bottom, p.pad_left,
                                  p.pad_right, p.dilation_h, p.dilation_w, p.groups}),
            (std::vector<int64_t>{8, 9, 1, 2, 3, 4, 2, 3, 1}));
}

TEST(Shapes, RejectsWhatIsNotOfTheFormat) {
  for (const char* line : {"name n1c2h3 k1r1s1", "name n1c2h3w4", "name n1c2h3w4 k1r1s1 stride=2",
                           "name n1c2h3w4 k1r1s1 pads=1,1,1,1", "name n1c2h3w4x k1r1s1",
                           "name n1c2h3w4 k1r1s1 pad=1,1,1;1", "name nxc2h3w4 k1r1s1"}) {
    EXPECT_THROW(parse_shape(line), std::runtime_error) << line;
  }
}

TEST(Shapes, EveryShapeHasItsOwnNameAndAReason) {
  std::set<std::string> names;
  for (const char* file :
       {"reference", "edges", "empty", "layers", "networks", "transposed", "one_dimensional"}) {
    for (const Shape& shape : load_shapes(file)) {
      EXPECT_TRUE(names.insert(shape.name).second) << shape.name;
      EXPECT_FALSE(shape.reason.empty()) << shape.name;
      EXPECT_GT(shape.problem.p(), 0) << shape.name;
      EXPECT_GT(shape.problem.q(), 0) << shape.name;
      EXPECT_EQ(shape.problem.c % shape.problem.groups, 0) << shape.name;
      EXPECT_EQ(shape.problem.k % shape.problem.groups, 0) << shape.name;
    }
  }
}

}  // namespace
}  // namespace haloconv::testing
