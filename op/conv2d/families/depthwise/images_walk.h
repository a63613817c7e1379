// A block's way through its share of a weight gradient's pairs of rows, by eights of images.
#pragma once

#include <cstdint>

#include "conv2d/families/depthwise/images.h"

namespace haloconv::depthwise {

// A step's kind: a byte.
struct ImagesStep {
  static constexpr uint32_t kColumns = 15;  // of outputs that exist, after the last step of some
                                            // that have fewer than others; else 0
  static constexpr uint32_t kHasOutputs = 16, kHasBothRows = 32, kExists = 64;
};

// Step after step. Of each segment of columns of eight images, some steps come first in which rows
// of the input are brought that the first pair of rows of outputs meets.
template <int kLead>
class ImagesWalk {
 public:
  HALOCONV_HOST_DEVICE ImagesWalk(const Images& d, int32_t first, int32_t last)
      : next_(first), last_(last) {
    enter(d);
  }

  HALOCONV_HOST_DEVICE bool is_done() const { return first_ == end_; }
  HALOCONV_HOST_DEVICE bool is_lead() const { return pair_ < first_; }
  HALOCONV_HOST_DEVICE bool begins() const { return pair_ == first_ - kLead; }
  // Less than 0 in some steps that come first.
  HALOCONV_HOST_DEVICE int32_t pair() const { return pair_; }

  struct Place {
    int32_t segment, eight;
  };
  HALOCONV_HOST_DEVICE Place place(const Images& d) const {
    const int32_t column = d.pairs.quotient(next_ - 1);
    const int32_t segment = d.eights.quotient(column);
    return {d.segments - 1 - segment, column - segment * d.eights.divisor};
  }

  // What is kept of a step until it is multiplied; not 0.
  HALOCONV_HOST_DEVICE uint32_t kind(const Images& d) const {
    uint32_t kind = ImagesStep::kExists;
    if (!is_lead()) kind |= ImagesStep::kHasOutputs;
    if (2 * pair_ + 1 < d.h.outputs) kind |= ImagesStep::kHasBothRows;
    if (pair_ + 1 == end_) {
      const int32_t columns = d.columns_of(place(d).segment);
      if (columns < d.segment_columns) kind |= columns;
    }
    return kind;
  }

  HALOCONV_HOST_DEVICE void advance(const Images& d) {
    if (++pair_ == end_) enter(d);
  }

 private:
  HALOCONV_HOST_DEVICE void enter(const Images& d) {
    first_ = next_ - d.pairs.quotient(next_) * d.pairs.divisor;
    const int32_t end = first_ + last_ - next_;
    end_ = end < d.pairs.divisor ? end : d.pairs.divisor;
    pair_ = first_ - kLead;
    next_ += end_ - first_;
  }

  int32_t next_, last_;         // the first tile of the next segment or eight images, the end
  int32_t first_, end_, pair_;  // of pairs of rows where it is
};

}  // namespace haloconv::depthwise
