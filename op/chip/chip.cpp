#include "chip/chip.h"

#include <algorithm>
#include <cstring>
#include <ostream>
#include <string_view>

#include "chip/known_chips.h"

namespace haloconv {

namespace {

// The part of the rate that the memory's clock and width allow which a copy reaches: 4.3 of 4.8
// TB/s on an H200.
constexpr double kCopyShare = 0.9;

// Bytes from the L2 cache to a multiprocessor in a cycle. An A100 has 5120 to all of its 108
// (NVIDIA's paper on its architecture); of others nothing is published.
constexpr double kL2BytesPerCycle = 5120.0 / 108;

// The clock for which the tensor cores' rates are stated, as a part of the highest clock. For
// server chips since 9.0 it is lower (an H100's 1.83 of 1.98 GHz, or 1.62 of 1.755; a B200's 1.86
// of 1.965).
double matrix_clock_share(int compute_capability) {
  return compute_capability >= 90 && compute_capability < 110 ? 0.925 : 1;
}

// For devices that do not report theirs: a modest clock, and the bytes that the memory brings a
// multiprocessor in a cycle (2.8 on an RTX 4090, 6 on an RTX 3090, 18 on an H200).
constexpr double kUnknownClockHz = 1.5e9, kUnknownMemoryBytes = 4;

// FNV-1a, eight bytes at a time.
struct Hash {
  uint64_t value = 0xcbf29ce484222325;

  void add(uint64_t word) {
    value = (value ^ word) * 0x100000001b3;
    value ^= value >> 32;  // or high bits would never reach low ones
  }

  void add(std::string_view text) {
    for (size_t at = 0; at < text.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + at, std::min<size_t>(text.size() - at, 8));
      add(word);
    }
  }
};

const char* text_of(ChipSource source) {
  switch (source) {
    case ChipSource::kMeasured:
      return "known chip, on which the cost models were measured";
    case ChipSource::kTable:
      return "known chip, to which the cost models are scaled from an H200";
    case ChipSource::kDerived:
      break;
  }
  return "derived from what the device says; the cost models are scaled from an H200";
}

}  // namespace

int64_t Chip::identity() const {
  Hash hash;
  hash.add(name);
  hash.add(static_cast<uint64_t>(compute_capability));
  hash.add(static_cast<uint64_t>(multiprocessors));
  return static_cast<int64_t>(hash.value);
}

std::string compute_capability_text(int compute_capability) {
  return std::to_string(compute_capability / 10) + '.' + std::to_string(compute_capability % 10);
}

std::ostream& operator<<(std::ostream& os, const Chip& chip) {
  if (chip.compute_capability == 0) return os << chip.name;  // nothing else is known
  const MultiplyAdds& rates = chip.multiply_adds;
  os << chip.name << ": compute capability " << compute_capability_text(chip.compute_capability)
     << ", " << chip.multiprocessors << " multiprocessors at " << chip.clock_hz / 1e9 << " GHz, "
     << chip.memory_rate / 1e12 << " TB/s, TFLOP/s float32 "
     << chip.flop_rate(rates.float32) / 1e12;
  if (rates.tf32_matrix > 0) os << ", TF32 " << chip.flop_rate(rates.tf32_matrix) / 1e12;
  if (rates.half_matrix > 0) os << ", 16 bits " << chip.flop_rate(rates.half_matrix) / 1e12;
  return os << " (" << text_of(chip.source) << ')';
}

MultiplyAdds multiply_adds_of(int compute_capability, bool is_geforce) {
  const int half = is_geforce ? 2 : 1;
  switch (compute_capability) {
    case 80:
      return {.float32 = 64,
              .float64 = 32,
              .tf32_matrix = 512,
              .float64_matrix = 64,
              .half_matrix = 1024};
    case 90:
      return {.float32 = 128,
              .float64 = 64,
              .tf32_matrix = 1024,
              .float64_matrix = 128,
              .half_matrix = 2048};
    case 100:
      return {.float32 = 128,
              .float64 = 64,
              .tf32_matrix = 2048,
              .float64_matrix = 64,
              .half_matrix = 4096};
    case 103:
    case 110:
      return {.float32 = 128, .float64 = 2, .tf32_matrix = 2048, .half_matrix = 4096};
    default:
      break;
  }
  if (compute_capability < 80) return {.float32 = 64, .float64 = 2};  // no kernel runs there
  return {.float32 = 128,
          .float64 = 2,
          .tf32_matrix = 256 / half,
          .half_matrix = 512 / half};  // 8.6, 8.7, 8.9, 12.0 and what is not known yet
}

Chip make_chip(const DeviceFacts& facts) {
  const bool is_geforce = facts.name.find("GeForce") != std::string::npos;
  Chip chip{.name = facts.name,
            .compute_capability = facts.compute_capability,
            .multiprocessors = facts.multiprocessors,
            .clock_hz = matrix_clock_share(facts.compute_capability) * facts.clock_hz,
            .shared_bytes_per_block = facts.shared_bytes_per_block,
            .shared_bytes_per_multiprocessor = facts.shared_bytes_per_multiprocessor,
            .l2_bytes = facts.l2_bytes,
            .memory_rate = kCopyShare * facts.memory_rate,
            .multiply_adds = multiply_adds_of(facts.compute_capability, is_geforce)};
  // Some virtual devices do not report their clock or their memory's.
  if (chip.clock_hz <= 0) chip.clock_hz = kUnknownClockHz;
  if (chip.memory_rate <= 0) chip.memory_rate = kUnknownMemoryBytes * chip.cycle_rate();
  if (const KnownChip* known = find_known_chip(facts.name)) {
    chip.clock_hz = known->clock_hz;
    chip.memory_rate = known->memory_rate;
    chip.source = known->is_measured ? ChipSource::kMeasured : ChipSource::kTable;
  }
  chip.l2_rate = kL2BytesPerCycle * chip.cycle_rate();
  return chip;
}

}  // namespace haloconv
