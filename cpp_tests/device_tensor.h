// Device memory for tests of the kernels: poisoned, between guards, written and read by element.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chip/chip.h"
#include "conv2d/problem.h"
#include "cpp_tests/reference_conv2d.h"

namespace haloconv::testing {

bool has_gpu();
// The first GPU.
const Chip& gpu();

// Device memory between guards, all of it NaN in every floating-point type.
class Buffer {
 public:
  explicit Buffer(int64_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  char* data() const;
  void poison() const;
  bool guards_are_whole() const;

 private:
  int64_t bytes_;
  void* memory_ = nullptr;
};

// Position in memory of each element of a dense (a, b, c, d) tensor.
std::vector<int64_t> positions(const Strides& strides, int64_t a, int64_t b, int64_t c, int64_t d);

// A tensor on the device, and how its elements lie there.
class DeviceTensor {
 public:
  DeviceTensor(std::vector<int64_t> positions, DataType type);

  DeviceTensor& set(const Values& values);
  // All elements equal `values` rounded to the type, NaN where they are NaN, and nothing outside
  // was written.
  void expect(const Values& values, const std::string& what) const;
  char* data() const { return buffer_.data(); }

 private:
  std::vector<int64_t> positions_;
  DataType type_;
  Buffer buffer_;
};

}  // namespace haloconv::testing
