// The ring of rows of units of the first layers' kernels, on the host.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "conv2d/families/first_layers/arguments.h"
#include "cpp_tests/reference_conv2d.h"

namespace haloconv::testing {

using namespace sm90::first_layers;

inline constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
inline constexpr uint32_t kRingAt = 128 * 1024;

// Shared memory of values of so many bytes.
class Memory {
 public:
  explicit Memory(int32_t value_bytes)
      : value_bytes_(value_bytes), values_(256 * 1024 / value_bytes, kNothing) {}
  double& at(uint32_t address) { return values_.at(address / value_bytes_); }

 private:
  int32_t value_bytes_;
  std::vector<double> values_;
};

// Rows as RowProducer brings them and RowConsumer waits for them.
class Ring {
 public:
  Ring(const Sweep& sweep, const Conv2dProblem& p, const Values& input, Memory& memory)
      : sweep_(sweep), p_(p), input_(input), memory_(memory) {}

  void begin_segment(const TilePlace& place, int32_t rows) {
    place_ = place;
    rows_ = rows;
    brought_in_segment_ = 0;
  }

  void wait(int32_t rows) {
    ASSERT_LE(rows, sweep_.ring) << "the ring is too small";
    for (; ahead_ < rows; ++ahead_) {
      ASSERT_LT(brought_in_segment_, rows_) << "nobody brings this row";
      bring((first_ + ahead_) % sweep_.ring, place_.band * sweep_.tile_rows * sweep_.stride_h -
                                                 sweep_.pad_top + brought_in_segment_++);
    }
  }

  void release(int32_t rows) {
    ASSERT_LE(rows, ahead_);
    for (int32_t i = 0; i < rows; ++i) {
      for (int32_t at = 0; at < sweep_.row_bytes; at += value_bytes()) {
        memory_.at(kRingAt + slot(i) * sweep_.row_bytes + at) = kNothing;
      }
    }
    first_ = slot(rows % sweep_.ring);
    ahead_ -= rows;
  }

  int32_t slot(int32_t rows) const { return (first_ + rows) % sweep_.ring; }
  bool segment_is_done() const { return brought_in_segment_ == rows_ && ahead_ == 0; }

 private:
  void bring(int32_t stage, int32_t row) {
    const UnitRow& units = sweep_.units;
    const int32_t first_column = place_.strip * sweep_.columns * units.stride - sweep_.pad_left;
    for (int32_t i = 0; i < units.planes; ++i) {
      const UnitPlane& plane = units.plane[i];
      for (int32_t unit = 0; unit < plane.units; ++unit) {
        for (int32_t e = 0; e < units.elements; ++e) {
          const UnitElement element(sweep_, e);
          const int32_t column = first_column + units.column_of(plane, unit, 0) + element.column;
          const bool is_read = element.exists && units.pixel_of(e) < plane.taps && row >= 0 &&
                               row < sweep_.h && column >= 0 && column < sweep_.w;
          double value = element.is_one ? 1 : 0;
          if (is_read) {
            value = input_.at(((place_.image * p_.c + units.channel_of(e)) * p_.h + row) * p_.w +
                              column);
            const int64_t offset = element.offset - units.pixel_of(e) * units.dilation * p_.input.w;
            EXPECT_EQ(offset, units.channel_of(e) * p_.input.c);
          }
          memory_.at(kRingAt + stage * sweep_.row_bytes + (plane.first_unit + unit) * kUnitBytes +
                     e * value_bytes()) = value;
        }
      }
    }
  }

  int32_t value_bytes() const { return kUnitBytes / sweep_.units.elements; }

  const Sweep& sweep_;
  const Conv2dProblem& p_;
  const Values& input_;
  Memory& memory_;
  TilePlace place_{Sweep{}, 0};
  int32_t rows_ = 0, brought_in_segment_ = 0;
  int32_t first_ = 0, ahead_ = 0;
};

}  // namespace haloconv::testing
