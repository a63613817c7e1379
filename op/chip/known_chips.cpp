#include "chip/known_chips.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace haloconv {

namespace {

// The part of the memory's rate in the data sheet that a copy reaches.
constexpr double copied(double terabytes_per_second) { return 0.9e12 * terabytes_per_second; }

constexpr int64_t mebibytes(int64_t count) { return count << 20; }

// Multiprocessors, clocks and memory rates from the makers' data sheets. The clocks are those that
// the tensor cores' rates imply (an H100 boosts to 1.98 GHz, but its 989 TFLOP/s are at 1.83).
// The H200's memory rate is that of benchmarks/limits.py.
constexpr KnownChip kKnownChips[] = {
    {"NVIDIA A100-SXM4-40GB", 80, 108, 1.41e9, copied(1.555), mebibytes(40)},
    {"NVIDIA A100-PCIE-40GB", 80, 108, 1.41e9, copied(1.555), mebibytes(40)},
    {"NVIDIA A100-SXM4-80GB", 80, 108, 1.41e9, copied(2.039), mebibytes(40)},
    {"NVIDIA A100 80GB PCIe", 80, 108, 1.41e9, copied(1.935), mebibytes(40)},
    {"NVIDIA A10", 86, 72, 1.695e9, copied(0.600), mebibytes(6)},
    {"NVIDIA GeForce RTX 3090", 86, 82, 1.695e9, copied(0.936), mebibytes(6)},
    {"NVIDIA GeForce RTX 4090", 89, 128, 2.52e9, copied(1.008), mebibytes(72)},
    {"NVIDIA L4", 89, 58, 2.04e9, copied(0.300), mebibytes(48)},
    {"NVIDIA L40S", 89, 142, 2.52e9, copied(0.864), mebibytes(96)},
    {"NVIDIA H100 PCIe", 90, 114, 1.62e9, copied(2.039), mebibytes(50)},
    {"NVIDIA H100 80GB HBM3", 90, 132, 1.83e9, copied(3.352), mebibytes(50)},
    {"NVIDIA H200", 90, 132, 1.83e9, 4.3e12, mebibytes(60), true},
    {"NVIDIA B200", 100, 148, 1.86e9, copied(7.7), mebibytes(126)},
    {"NVIDIA GeForce RTX 5090", 120, 170, 2.407e9, copied(1.792), mebibytes(96)},
};

}  // namespace

std::span<const KnownChip> known_chips() { return kKnownChips; }

const KnownChip* find_known_chip(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kKnownChips), std::end(kKnownChips),
                   [&](const KnownChip& known) { return known.name == name; });
  return found == std::end(kKnownChips) ? nullptr : found;
}

Chip chip_of(std::string_view name) {
  const KnownChip* known = find_known_chip(name);
  if (known == nullptr) {
    throw std::runtime_error("haloconv: the name of a known chip was expected, got \"" +
                             std::string(name) + '"');
  }
  constexpr int64_t kReserved = 1 << 10;  // of each block, by the system
  const int64_t shared = most_shared_bytes(known->compute_capability);
  return make_chip({.name = std::string(name),
                    .compute_capability = known->compute_capability,
                    .multiprocessors = known->multiprocessors,
                    .clock_hz = known->clock_hz,
                    .memory_rate = known->memory_rate,
                    .shared_bytes_per_block = shared,
                    .shared_bytes_per_multiprocessor = shared + kReserved,
                    .l2_bytes = known->l2_bytes});
}

const Chip& h200() {
  static const auto* const chip = new Chip(chip_of("NVIDIA H200"));  // calls may come at exit
  return *chip;
}

}  // namespace haloconv
