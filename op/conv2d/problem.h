// A 2-D convolution problem: what is computed, free of torch and of any device.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace haloconv {

enum class Direction { kFprop, kDgrad, kWgrad };

std::string_view name_of(Direction direction);

// kOther: a type that only ATen computes with.
enum class DataType { kFloat32, kFloat64, kFloat16, kBFloat16, kOther };

// Bytes of one element.
int64_t size_of(DataType type);

// Distances between neighbours along each dimension, in elements. For a filter (k, c, r, s) the
// members read n = k, h = r, w = s; for an output (n, k, p, q): c = k, h = p, w = q.
struct Strides {
  int64_t n = 0, c = 0, h = 0, w = 0;
};

// The strides of a dense (n, c, h, w) tensor, rows innermost.
Strides nchw_strides(int64_t c, int64_t h, int64_t w);
// The strides of a dense (n, c, h, w) tensor, channels innermost.
Strides nhwc_strides(int64_t c, int64_t h, int64_t w);

// input (n, c, h, w) * filter (k, c/groups, r, s) -> output (n, k, p, q).
//
//   output[n, k, p, q] = sum over c, r, s of filter[k, c, r, s] *
//     input[n, c, p*stride_h - pad_top + r*dilation_h, q*stride_w - pad_left + s*dilation_w]
//
// The same struct describes all three directions: dgrad and wgrad are this sum's derivatives.
// Every member is a count of elements; the three tensors share one type.
struct Conv2dProblem {
  int64_t n = 1, c = 1, h = 1, w = 1;
  int64_t k = 1, r = 1, s = 1;
  int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  int64_t stride_h = 1, stride_w = 1;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;
  DataType type = DataType::kFloat32;
  Strides input, filter, output;

  // Output rows and columns.
  int64_t p() const { return (h + pad_top + pad_bottom - dilation_h * (r - 1) - 1) / stride_h + 1; }
  int64_t q() const { return (w + pad_left + pad_right - dilation_w * (s - 1) - 1) / stride_w + 1; }

  int64_t group_c() const { return c / groups; }
  int64_t group_k() const { return k / groups; }

  // Multiplications and additions, taps that fall on padding included; the same in each direction.
  double flop() const;
  // Bytes of input, filter and output, each once.
  double bytes() const;
  // Whether a tensor has no element.
  bool is_empty() const { return n == 0 || c == 0 || k == 0; }

  // Sets the three strides to dense tensors, rows or channels innermost.
  void set_dense_strides(bool channels_last);
};

// Throws std::logic_error, naming the size, where they are none of a convolution. A tensor may
// still be empty: no image or no channel.
void check_sizes(const Conv2dProblem& problem);
// The same where a tensor is empty too: there is nothing that a kernel could compute.
void check_not_empty(const Conv2dProblem& problem);

std::ostream& operator<<(std::ostream& os, Direction direction);
std::ostream& operator<<(std::ostream& os, DataType type);
std::ostream& operator<<(std::ostream& os, const Strides& strides);
// One line, in the words of the shape files: n16c16h1024w1024 k128r3s3 stride=1,1 ...
std::ostream& operator<<(std::ostream& os, const Conv2dProblem& problem);

}  // namespace haloconv
