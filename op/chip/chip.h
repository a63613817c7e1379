// What planners and cost models know of a GPU.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

namespace haloconv {

// Multiply-adds that one multiprocessor does in a cycle; 0: it has no unit for them. Those of the
// tensor cores are dense (without sparsity), with sums in float32, of float64 in float64.
struct MultiplyAdds {
  int float32 = 0, float64 = 0;  // of ordinary instructions
  int tf32_matrix = 0, float64_matrix = 0;
  int half_matrix = 0;  // float16 and bfloat16
};

// Where a chip's figures come from.
enum class ChipSource {
  kMeasured,  // the table of known chips; the cost models were fitted to times on this chip
  kTable,     // the table of known chips
  kDerived,   // what the device says of itself, and what its architecture has
};

struct Chip {
  std::string name;            // as the driver gives it
  int compute_capability = 0;  // major * 10 + minor
  int multiprocessors = 0;
  // The clock by which the maker states the tensor cores' rates. Under a heavy load a chip runs
  // slower: each cost model has a factor for that.
  double clock_hz = 0;
  int64_t shared_bytes_per_block = 0;  // for kernels that ask for more than 48 KiB
  int64_t shared_bytes_per_multiprocessor = 0;
  int64_t l2_bytes = 0;
  double memory_rate = 0;  // bytes per second that a copy reads and writes
  double l2_rate = 0;      // bytes per second to all multiprocessors together
  MultiplyAdds multiply_adds;
  ChipSource source = ChipSource::kDerived;

  // Cycles of all multiprocessors per second.
  double cycle_rate() const { return multiprocessors * clock_hz; }
  // FLOP per second of so many multiply-adds in a multiprocessor's cycle.
  double flop_rate(int per_cycle) const { return 2 * per_cycle * cycle_rate(); }

  // A number that tells kinds of chips apart, and is the same in every process.
  int64_t identity() const;
};

// One line, which says where the figures come from.
std::ostream& operator<<(std::ostream& os, const Chip& chip);

// "9.0" of 90.
std::string compute_capability_text(int compute_capability);

// What a device says of itself.
struct DeviceFacts {
  std::string name;
  int compute_capability = 0;
  int multiprocessors = 0;
  double clock_hz = 0;     // the highest
  double memory_rate = 0;  // bytes per second, by the memory's clock and width
  int64_t shared_bytes_per_block = 0;
  int64_t shared_bytes_per_multiprocessor = 0;
  int64_t l2_bytes = 0;
};

// Rates from the table of known chips where the name is there, derived ones where it is not; counts
// as the device says.
Chip make_chip(const DeviceFacts& facts);

// What architectures have: shared memory of a block at most, and multiply-adds. GeForce chips have
// half the tensor cores' rate for sums in float32.
constexpr int64_t most_shared_bytes(int compute_capability) {
  switch (compute_capability) {
    case 80:
    case 87:
      return 163 << 10;
    case 90:
    case 100:
    case 103:
    case 110:
      return 227 << 10;
    default:
      return 99 << 10;
  }
}
MultiplyAdds multiply_adds_of(int compute_capability, bool is_geforce);

}  // namespace haloconv
