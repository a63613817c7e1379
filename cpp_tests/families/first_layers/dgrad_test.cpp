// The input's gradient of first layers, followed on the host: rows of grad_output and the filter
// lie in shared memory as the kernel puts them, are read by the descriptors that it makes, and what
// comes out is held against the definition. The ring and the writing are not followed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "chip/known_chips.h"
#include "conv2d/families/first_layers/operands.h"
#include "conv2d/families/first_layers/plan.h"
#include "conv2d/geometry/integers.h"
#include "cpp_tests/families/first_layers/ring_emulation.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/shapes.h"
#include "cpp_tests/shared_memory_emulation.h"

namespace haloconv::testing {
namespace {

class DgradEmulation {
 public:
  DgradEmulation(const Conv2dProblem& p, const Plan& plan, const Values& grad_output)
      : p_(p),
        args_(plan.dgrad),
        shape_(plan.dgrad_shape),
        plan_(plan),
        grad_output_(grad_output),
        result_(input_count(p), kNothing) {}

  Values run(const Values& filter) {
    put_filter(filter);
    const int64_t workers = plan_.dgrad_blocks * dgrad_groups(shape_);
    for (int64_t worker = 0; worker < workers; ++worker) {
      const auto first = static_cast<int32_t>(worker * args_.worker_rows);
      const int32_t end = std::min(first + args_.worker_rows, args_.all_rows);
      for (int32_t at = first; at < end;) {
        const StripPart part = args_.part(at, end);
        compute(part);
        at += part.rows;
      }
    }
    return result_;
  }

 private:
  int32_t width() const { return shape_.rows * shape_.channels; }

  void put_filter(const Values& filter) {
    for (int32_t i = 0; i < args_.filter_bytes; i += 2) memory_.at(i) = 0;
    for (int32_t k = 0; k < p_.k; ++k) {
      for (int32_t c = 0; c < p_.c; ++c) {
        for (int32_t r = 0; r < p_.r; ++r) {
          for (int32_t s = 0; s < p_.s; ++s) {
            double& to = memory_.at(dgrad_filter_place(args_, shape_, args_.tap(r, s, c), k));
            to = filter.at(((k * p_.c + c) * p_.r + r) * p_.s + s);
          }
        }
      }
    }
  }

  void put_window(const StripPart& part, int32_t p, int32_t chunk) {
    const int32_t first = part.column - (args_.taps_w - 1);
    for (int32_t i = 0; i < (kStripColumns + args_.taps_w - 1) * kChunkChannels; ++i) {
      const int64_t q = first + i / kChunkChannels;
      const int64_t k = chunk * kChunkChannels + i % kChunkChannels;
      const bool exists = p >= 0 && p < p_.p() && q >= 0 && q < p_.q() && k < p_.k;
      memory_.at(args_.filter_bytes + swizzled((i + args_.box_shift * kChunkChannels) * 2, 128)) =
          exists ? grad_output_.at(((part.image * p_.k + k) * p_.p() + p) * p_.q() + q) : 0;
    }
  }

  void multiply(int32_t chunk, Values& sums) {
    const auto deep = static_cast<int32_t>(
        std::min<int64_t>(kChunkChannels, round_up(p_.k - chunk * kChunkChannels, 16)));
    for (int32_t tap = 0; tap < args_.taps_w; ++tap) {
      const uint64_t a = pixel_operand(args_.filter_bytes + args_.box_shift * 128) + tap * 128 / 16;
      const uint64_t b =
          pixel_operand(0) + (chunk * args_.taps_w + tap) * int64_t{width()} * 128 / 16;
      for (int32_t k = 0; k < deep; k += 16) {
        add_products(sums, operand(a + k / 16 * 2, kStripColumns), operand(b + k / 16 * 2, width()),
                     kStripColumns, width());
      }
    }
  }

  Values operand(uint64_t descriptor, int32_t wide) {
    return emulated_operand([&](uint32_t address) { return memory_.at(address); }, descriptor, true,
                            2, wide);
  }

  void compute(const StripPart& part) {
    Values sums(size_t(kStripColumns) * width(), 0);
    for (int32_t row = 1 - args_.taps_h; row < part.rows; ++row) {
      for (int32_t chunk = 0; chunk < args_.chunks; ++chunk) {
        put_window(part, args_.first_row + part.row + row, chunk);
        multiply(chunk, sums);
      }
      if (row >= 0) store(part, row, sums);
      for (int32_t i = 0; i < kStripColumns * width(); ++i) {
        const bool moves = i % width() + shape_.channels < width();
        sums[i] = moves ? sums[i + shape_.channels] : 0;
      }
    }
  }

  void store(const StripPart& part, int32_t row, const Values& sums) {
    const int64_t first_h = (args_.first_row + part.row + row) * p_.stride_h - p_.pad_top;
    for (int32_t m = 0; m < kStripColumns; ++m) {
      for (int32_t n = 0; n < p_.stride_h * p_.stride_w * p_.c; ++n) {
        const int64_t h = first_h + n / (p_.stride_w * p_.c), c = n % p_.c;
        const LinePlace place = args_.line_place(n);
        EXPECT_EQ(place.rest_h, n / (p_.stride_w * p_.c));
        EXPECT_EQ(
            place.line * p_.input.c + place.element * p_.input.w / (p_.input.c == 1 ? p_.c : 1),
            c * p_.input.c + n / p_.c % p_.stride_w * p_.input.w);
        const int64_t w = (part.column + m) * p_.stride_w - p_.pad_left + n / p_.c % p_.stride_w;
        if (h < 0 || h >= p_.h || w < 0 || w >= p_.w) continue;
        double& to = result_.at(((part.image * p_.c + c) * p_.h + h) * p_.w + w);
        EXPECT_TRUE(std::isnan(to)) << "written twice";
        to = sums[m * width() + n];
      }
    }
  }

  const Conv2dProblem& p_;
  const DgradArguments& args_;
  const DgradShape shape_;
  const Plan& plan_;
  const Values& grad_output_;
  Values result_;
  Memory memory_{2};
};

class FirstLayersDgradEmulation : public ::testing::TestWithParam<Shape> {
 protected:
  void check(const Conv2dProblem& p) const;
};

void FirstLayersDgradEmulation::check(const Conv2dProblem& p) const {
  const std::string reason = declines(p, Direction::kDgrad, true, h200());
  const bool folds = p.stride_h * p.stride_w * p.c <= 64;
  ASSERT_EQ(reason.empty(), folds) << reason;
  if (!folds) return;
  const Values grad_output = small_integers(output_count(p), 1);
  const Values filter = small_integers(filter_count(p), 2);
  const Values expected = reference_dgrad(p, grad_output, filter);
  Chip chip = h200();
  chip.multiprocessors = 3;
  const std::vector<Plan> plans = make_plans(p, Direction::kDgrad, chip, false);
  // More rows of taps than an instruction is wide, or no room for boxes beside the filter.
  const bool has_rows_innermost = p.output.w == 1;
  EXPECT_EQ(plans.empty(), GetParam().name == "far_rows" || GetParam().name == "lying_11x11" ||
                               (has_rows_innermost && GetParam().name == "two_channels"));
  for (const Plan& plan : plans) {
    ASSERT_EQ(DgradEmulation(p, plan, grad_output).run(filter), expected) << text_of(p, plan);
    if (HasFailure()) return;
  }
}

TEST_P(FirstLayersDgradEmulation, IsExactOnSmallIntegers) {
  Conv2dProblem p = GetParam().problem;
  p.type = DataType::kBFloat16;
  p.set_dense_strides(true);
  check(p);
}

TEST_P(FirstLayersDgradEmulation, IsExactWithRowsInnermost) {
  Conv2dProblem p = GetParam().problem;
  p.type = DataType::kBFloat16;
  p.set_dense_strides(false);
  const int64_t row = round_up(p.q(), 8), plane = row * p.p();
  p.output = {.n = plane * p.k, .c = plane, .h = row, .w = 1};
  check(p);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FirstLayersDgradEmulation,
                         ::testing::ValuesIn(load_shapes("first_layers")), name_of_shape);

}  // namespace
}  // namespace haloconv::testing
