// The input's gradient of first layers, followed on the host: rows of grad_output and the filter
// lie in shared memory as the kernel puts them, are read by the descriptors that it makes, and what
// comes out goes through shared memory to where the kernel writes it. The ring is not followed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/first_layers/lone_weight.h"
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
        result_(input_count(p), kNothing),
        memory_(plan.dgrad.element_bytes) {}

  Values run(const Values& filter) {
    put_filter(filter);
    const int64_t workers = plan_.dgrad_blocks * dgrad_groups(shape_, args_.element_bytes);
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
  int32_t unit() const { return 16 / args_.element_bytes; }
  int32_t row_bytes() const { return args_.chunk_channels * args_.element_bytes; }
  uint64_t rows_at(uint32_t at) const {
    return args_.is_narrow(args_.element_bytes) ? narrow_pixel_operand(at) : pixel_operand(at);
  }

  void put_filter(const Values& filter) {
    std::vector<LoneWeight> found;
    for (int32_t i = 0; i < args_.filter_bytes; i += args_.element_bytes) memory_.at(i) = 0;
    for (int32_t k = 0; k < p_.k; ++k) {
      for (int32_t c = 0; c < p_.c; ++c) {
        for (int32_t r = 0; r < p_.r; ++r) {
          for (int32_t s = 0; s < p_.s; ++s) {
            const PositionTap tap = args_.tap(r, s, c);
            const double value = filter.at(((k * p_.c + c) * p_.r + r) * p_.s + s);
            memory_.at(dgrad_filter_place(args_, shape_, tap, k, args_.element_bytes)) = value;
            if (std::isfinite(value)) continue;
            not_finite_ |= tap_bit(tap.v);
            found.push_back(
                lone_weight(args_, shape_, tap, k, static_cast<float>(value), args_.element_bytes));
          }
        }
      }
    }
    if (found.size() != 1 || !dgrad_has_lone_loop(shape_.channels)) return;
    lone_ = found[0];
    not_finite_ = 0;
    memory_.at(lone_->place) = std::copysign(1, lone_->value);
  }

  void put_window(const StripPart& part, int32_t p, int32_t chunk) {
    const int32_t first = part.column - (args_.taps_w - 1);
    const int32_t channels = args_.chunk_channels;
    for (int32_t i = 0; i < (args_.strip_columns + args_.taps_w - 1) * channels; ++i) {
      const int64_t q = first + i / channels;
      const int64_t k = chunk * channels + i % channels;
      const bool exists = p >= 0 && p < p_.p() && q >= 0 && q < p_.q() && k < p_.k;
      const int32_t at = (i + args_.box_shift * channels) * args_.element_bytes;
      memory_.at(args_.filter_bytes + swizzled(at, row_bytes())) =
          exists ? grad_output_.at(((part.image * p_.k + k) * p_.p() + p) * p_.q() + q) : 0;
    }
  }

  void multiply(const StripPart& part, int32_t chunk, Values& sums) {
    const int32_t depth = dgrad_depth(args_.element_bytes);
    const auto deep = static_cast<int32_t>(std::min<int64_t>(
        args_.chunk_channels, round_up(p_.k - chunk * args_.chunk_channels, depth)));
    const uint32_t apart = args_.is_at_edge(part) ? not_finite_ : 0;
    for (int32_t tap = 0; tap < args_.taps_w; ++tap) {
      const uint64_t a =
          rows_at(args_.filter_bytes + args_.box_shift * row_bytes()) + tap * row_bytes() / 16;
      const uint64_t b =
          rows_at(0) + (chunk * args_.taps_w + tap) * int64_t{width()} * row_bytes() / 16;
      const int32_t columns = args_.halves() && tap == 0 ? width() / 2 : width();
      const int32_t v = args_.taps_w - 1 - tap;
      Values products(size_t(args_.strip_columns) * columns, 0);
      for (int32_t k = 0; k < deep; k += depth) {
        add_products(products, operand(a + k / depth * 2, args_.strip_columns),
                     operand(b + k / depth * 2, columns), args_.strip_columns, columns);
      }
      for (int32_t m = 0; m < args_.strip_columns; ++m) {
        if ((apart & tap_bit(v)) != 0 && !args_.has_column(part.column + m - v)) continue;
        for (int32_t n = 0; n < columns; ++n) sums[m * width() + n] += products[m * columns + n];
      }
    }
  }

  void add_lone(const StripPart& part, int32_t chunk, Values& sums) {
    if (!lone_ || lone_->chunk != chunk) return;
    for (int32_t m = 0; m < args_.strip_columns; ++m) {
      if (!args_.has_column(part.column + m - lone_->v)) continue;
      const uint32_t at =
          args_.filter_bytes + (args_.box_shift + m) * row_bytes() + lone_->in_window;
      sums[m * width() + lone_->column] +=
          memory_.at(swizzled_in_window(args_, at, args_.element_bytes)) * lone_->value;
    }
  }

  Values operand(uint64_t descriptor, int32_t wide) {
    return emulated_operand([&](uint32_t address) { return memory_.at(address); }, descriptor, true,
                            args_.element_bytes, wide);
  }

  void compute(const StripPart& part) {
    Values sums(size_t(args_.strip_columns) * width(), 0);
    for (int32_t row = args_.first_source(part); row < part.rows; ++row) {
      const int32_t p = args_.first_row + part.row + row;
      EXPECT_EQ(row < args_.end_source(part), args_.has_row(p));
      for (int32_t chunk = 0; chunk < args_.chunks && args_.has_row(p); ++chunk) {
        put_window(part, p, chunk);
        multiply(part, chunk, sums);
        add_lone(part, chunk, sums);
      }
      if (row >= 0) store(part, row, sums);
      move_up(sums);
    }
  }

  void move_up(Values& sums) const {
    const auto column = [&](int32_t u, int32_t channel) {
      return dgrad_column(shape_.rows, u, channel);
    };
    for (int32_t m = 0; m < args_.strip_columns; ++m) {
      double* const of = sums.data() + m * width();
      for (int32_t n = 0; n < shape_.channels; ++n) {
        for (int32_t u = 1; u < shape_.rows; ++u) {
          const bool has_tap =
              u < args_.taps_h - 1 ||
              (u == args_.taps_h - 1 && args_.line_place(n).rest_h < args_.last_rests_h);
          of[column(u - 1, n)] = has_tap ? of[column(u, n)] : 0;
        }
        of[column(shape_.rows - 1, n)] = 0;
      }
    }
  }

  void store(const StripPart& part, int32_t row, const Values& sums) {
    const int32_t h = args_.first_h(part, row);
    Values staged(args_.staging_bytes() / args_.element_bytes, kNothing);
    for (int32_t m = 0; m < args_.strip_columns; ++m) {
      for (int32_t n = 0; n < shape_.channels; ++n) {
        const LinePlace place = args_.line_place(n);
        if (place.rest_h >= p_.stride_h) continue;
        const int32_t first_h = args_.first_h(part, 0) + place.rest_h;
        const int32_t shift = args_.shift(part, h + place.rest_h, place.line, unit());
        EXPECT_EQ(shift, (args_.shift(part, first_h, place.line, unit()) + row * args_.shift_step) %
                             unit());
        staged.at((place.rest_h * args_.lines.divisor + place.line) *
                      args_.staged_elements(unit()) +
                  place.element + m * args_.position_elements + shift) =
            sums[m * width() + dgrad_column(shape_.rows, 0, n)];
      }
    }
    for (int32_t i = 0; i < args_.all_vectors(); ++i) {
      const LineVector vector = args_.vector(part, h, i, unit());
      const int32_t to_h = h + vector.rest_h;
      if (to_h < 0 || to_h >= p_.h || vector.exists == 0) continue;
      const int64_t to =
          part.image * p_.input.n + to_h * p_.input.h + vector.line * p_.input.c + vector.element;
      EXPECT_EQ(to % unit(), 0);
      for (int32_t j = 0; j < unit(); ++j) {
        if ((vector.exists >> j & 1) != 0) write(to + j, staged.at(i * unit() + j));
      }
    }
  }

  // An element of the gradient by its place in memory, of a dense tensor.
  void write(int64_t at, double value) {
    const bool is_last = p_.input.c == 1;  // channels are innermost
    const int64_t image = at / p_.input.n, in_image = at % p_.input.n;
    const int64_t c = is_last ? in_image % p_.c : in_image / p_.input.c;
    const int64_t pixel = is_last ? in_image / p_.c : in_image % p_.input.c;
    double& to = result_.at((image * p_.c + c) * p_.h * p_.w + pixel);
    EXPECT_TRUE(std::isnan(to)) << "written twice";
    to = value;
  }

  const Conv2dProblem& p_;
  const DgradArguments& args_;
  const DgradShape shape_;
  const Plan& plan_;
  const Values& grad_output_;
  Values result_;
  Memory memory_;
  uint32_t not_finite_ = 0;
  std::optional<LoneWeight> lone_;
};

class FirstLayersDgradEmulation : public ::testing::TestWithParam<Shape> {
 protected:
  enum Which { kAll, kNotMended };  // of the plans
  void check(const Conv2dProblem& p, const Values& grad_output, const Values& filter,
             Which which = kAll) const;
  void check(const Conv2dProblem& p) const {
    check(p, small_integers(output_count(p), 1), small_integers(filter_count(p), 2));
  }

  static Conv2dProblem with_rows_innermost(Conv2dProblem p) {
    p.set_dense_strides(false);
    const int64_t row = round_up(p.q(), 8), plane = row * p.p();
    p.output = {.n = plane * p.k, .c = plane, .h = row, .w = 1};
    return p;
  }
};

// NaN is equal to NaN.
Values comparable(Values values) {
  constexpr double kNan = 1e300;
  for (double& value : values) value = std::isnan(value) ? kNan : value;
  return values;
}

// Which have more rows of taps than a shape of TF32, or no room in shared memory.
const std::set<std::string> kLargeForTf32 = {
    "rgb_many_channels", "rgb_dilated",       "rgb_no_padding", "rgb_patches_whole",
    "two_channels",      "lying_odd_padding", "lying_5x5"};

void FirstLayersDgradEmulation::check(const Conv2dProblem& p, const Values& grad_output,
                                      const Values& filter, Which which) const {
  const std::string reason = declines(p, Direction::kDgrad, true, h200());
  const bool is_tf32 = p.type == DataType::kFloat32;
  const bool folds = p.stride_h * p.stride_w * p.c <= (is_tf32 ? 48 : 64);
  ASSERT_EQ(reason.empty(), folds) << reason;
  if (!folds) return;
  const Values expected = comparable(reference_dgrad(p, grad_output, filter));
  Chip chip = h200();
  chip.multiprocessors = 3;
  const std::vector<Plan> plans = make_plans(p, Direction::kDgrad, chip, false);
  // More rows of taps than an instruction is wide, or no room for boxes beside the filter.
  const std::string& name = GetParam().name;
  const bool has_rows_innermost = p.output.w == 1;
  const bool is_large = is_tf32 && kLargeForTf32.contains(name);
  EXPECT_EQ(plans.empty(), is_large || name == "far_rows" || name == "lying_11x11" ||
                               (has_rows_innermost && name == "two_channels"));
  int checked = 0;
  for (const Plan& plan : plans) {
    if (which == kNotMended && plan.dgrad.mends) continue;
    ++checked;
    ASSERT_EQ(comparable(DgradEmulation(p, plan, grad_output).run(filter)), expected)
        << text_of(p, plan);
    if (HasFailure()) return;
  }
  // In TF32 no shape for its channels has halves.
  EXPECT_EQ(checked == 0,
            plans.empty() || (is_tf32 && which == kNotMended && name == "stride_three"));
}

TEST_P(FirstLayersDgradEmulation, IsExactOnSmallIntegers) {
  Conv2dProblem p = GetParam().problem;
  p.type = DataType::kBFloat16;
  p.set_dense_strides(true);
  check(p);
}

TEST_P(FirstLayersDgradEmulation, IsExactInTf32) {
  Conv2dProblem p = GetParam().problem;
  p.type = DataType::kFloat32;
  p.set_dense_strides(true);
  check(p);
}

TEST_P(FirstLayersDgradEmulation, IsExactWithRowsInnermost) {
  Conv2dProblem p = GetParam().problem;
  p.type = DataType::kBFloat16;
  check(with_rows_innermost(p));
}

INSTANTIATE_TEST_SUITE_P(Shapes, FirstLayersDgradEmulation,
                         ::testing::ValuesIn(load_shapes("first_layers")), name_of_shape);

// No zero that is no tap or no pixel may be multiplied with infinity, where results that are NaN
// are not computed again.
class FirstLayersDgradInfinities : public FirstLayersDgradEmulation {
 protected:
  // Of the first and the last tap column, of grad_output's first and last channel.
  static std::vector<std::pair<size_t, double>> lone_weights(const Values& filter) {
    return {{0, INFINITY}, {filter.size() - 1, -INFINITY}};
  }
  void check_infinities(DataType type) const;
};

void FirstLayersDgradInfinities::check_infinities(DataType type) const {
  Conv2dProblem p = GetParam().problem;
  p.type = type;
  p.set_dense_strides(true);
  const Values grad_output = small_integers(output_count(p), 1);
  const Values filter = small_integers(filter_count(p), 2);
  Values infinite = grad_output;
  make_some_not_finite(infinite, p.n, p.k, p.p(), p.q());
  check(p, infinite, filter, kNotMended);
  Values weights = filter;
  make_some_not_finite(weights, p.k, p.c, p.r, p.s);
  check(p, grad_output, weights, kNotMended);
  for (const auto& [place, value] : lone_weights(filter)) {
    weights = filter;
    weights.at(place) = value;
    check(p, grad_output, weights, kNotMended);
    check(p, infinite, weights, kNotMended);
  }
}

TEST_P(FirstLayersDgradInfinities, ReachTheirTapsAlone) { check_infinities(DataType::kBFloat16); }
TEST_P(FirstLayersDgradInfinities, ReachTheirTapsAloneInTf32) {
  check_infinities(DataType::kFloat32);
}

std::vector<Shape> some_first_layers() {
  std::vector<Shape> some;
  for (const Shape& shape : load_shapes("first_layers")) {
    for (const char* name : {"rgb_3x3", "rgb_7x7", "rgb_3x3_strided", "rgb_patches",
                             "rgb_two_strips", "four_channels", "eight_channels", "stride_three"}) {
      if (shape.name == name) some.push_back(shape);
    }
  }
  return some;
}

INSTANTIATE_TEST_SUITE_P(Shapes, FirstLayersDgradInfinities,
                         ::testing::ValuesIn(some_first_layers()), name_of_shape);

}  // namespace
}  // namespace haloconv::testing
