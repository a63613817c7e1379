// Operands of the matrix instruction in shared memory, read on the host as the hardware reads them.
#pragma once

#include <cstdint>
#include <vector>

namespace haloconv::testing {

// The bytes from which an element of an operand is read. `wide` counts rows of the first operand or
// columns of the second, `deep` the products; `deep_innermost` where neighbours in depth are
// neighbours in memory.
inline uint32_t emulated_address(uint64_t descriptor, bool deep_innermost, int32_t element_bytes,
                                 int32_t wide, int32_t deep) {
  const auto start = static_cast<uint32_t>(descriptor & 0x3fff) << 4;
  const auto leading = static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4;
  const auto stride = static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4;
  const auto swizzle = static_cast<int32_t>(descriptor >> 62);
  const int32_t units = swizzle == 0 ? 1 : 16 >> swizzle;  // of 16 bytes, in a row
  const int32_t of_unit = 16 / element_bytes, of_row = of_unit * units;
  const int32_t inner = deep_innermost ? deep : wide, outer = deep_innermost ? wide : deep;
  // Eight rows are a group; without a swizzle the two distances change places where the operand's
  // width is innermost.
  const bool swaps = swizzle == 0 && !deep_innermost;
  const uint32_t to_group = swaps ? leading : stride, to_next = swaps ? stride : leading;
  uint32_t at = start + outer / 8 * to_group + outer % 8 * units * 16 + inner / of_row * to_next +
                inner % of_row * element_bytes;
  if (swizzle == 1) at ^= (at >> 7 & 7) << 4;
  if (swizzle == 2) at ^= (at >> 7 & 3) << 4;
  if (swizzle == 3) at ^= (at >> 7 & 1) << 4;
  return at;
}

// Where the copy engine puts a byte of a box that begins at `at`, with rows of `row_bytes` swizzled
// over their length: 128, 64 or 32.
inline uint32_t swizzled(uint32_t at, int32_t row_bytes) {
  const uint32_t mask = row_bytes / 16 - 1;
  return at ^ ((at >> 7 & mask) << 4);
}

// An operand of one instruction, (deep x wide); at(address) is the value there.
template <class At>
std::vector<double> emulated_operand(At at, uint64_t descriptor, bool deep_innermost,
                                     int32_t element_bytes, int32_t wide) {
  std::vector<double> values;
  for (int32_t k = 0; k < 32 / element_bytes; ++k) {
    for (int32_t i = 0; i < wide; ++i) {
      values.push_back(at(emulated_address(descriptor, deep_innermost, element_bytes, i, k)));
    }
  }
  return values;
}

// sums (rows x columns) += the transposed a (deep x rows) * b (deep x columns)
inline void add_products(std::vector<double>& sums, const std::vector<double>& a,
                         const std::vector<double>& b, int32_t rows, int32_t columns) {
  for (int32_t row = 0; row < rows; ++row) {
    double* const to = sums.data() + row * columns;
    for (size_t k = 0; k < a.size() / rows; ++k) {
      const double factor = a[k * rows + row];
      for (int32_t n = 0; n < columns; ++n) to[n] += factor * b[k * columns + n];
    }
  }
}

}  // namespace haloconv::testing
