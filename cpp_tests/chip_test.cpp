#include "chip/chip.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "chip/known_chips.h"
#include "chip/scale.h"

namespace haloconv::testing {
namespace {

std::string text_of(const Chip& chip) {
  std::ostringstream text;
  text << chip;
  return text.str();
}

double tflops(const Chip& chip, int per_cycle) { return chip.flop_rate(per_cycle) / 1e12; }

// What a device that is not in the table says of itself.
DeviceFacts rtx_4080() {
  return {.name = "NVIDIA GeForce RTX 4080",
          .compute_capability = 89,
          .multiprocessors = 76,
          .clock_hz = 2.505e9,
          .memory_rate = 716.8e9,
          .shared_bytes_per_block = 99 << 10,
          .shared_bytes_per_multiprocessor = 100 << 10,
          .l2_bytes = 64 << 20};
}

// The makers' data sheets: TFLOP/s without sparsity, with sums in float32.
TEST(Chip, KnownChipsHaveThePublishedRates) {
  struct Published {
    const char* name;
    double tf32, half;
  };
  const Published all[] = {{"NVIDIA A100-SXM4-40GB", 156, 312},
                           {"NVIDIA A100-SXM4-80GB", 156, 312},
                           {"NVIDIA A10", 62.5, 125},
                           {"NVIDIA GeForce RTX 3090", 35.6, 71.2},
                           {"NVIDIA GeForce RTX 4090", 82.6, 165.2},
                           {"NVIDIA L4", 60.5, 121},
                           {"NVIDIA L40S", 183, 366},
                           {"NVIDIA GeForce RTX 5090", 104.8, 209.5},
                           {"NVIDIA B200", 1125, 2250},
                           {"NVIDIA H100 PCIe", 378, 756},
                           {"NVIDIA H100 80GB HBM3", 494.7, 989.4},
                           {"NVIDIA H200", 494.7, 989.4}};
  for (const Published& published : all) {
    const Chip chip = chip_of(published.name);
    EXPECT_NEAR(tflops(chip, chip.multiply_adds.tf32_matrix), published.tf32, 0.01 * published.tf32)
        << chip;
    EXPECT_NEAR(tflops(chip, chip.multiply_adds.half_matrix), published.half, 0.01 * published.half)
        << chip;
  }
}

TEST(Chip, KnownChipsAreWhole) {
  for (const KnownChip& known : known_chips()) {
    const Chip chip = chip_of(known.name);
    EXPECT_EQ(chip.name, known.name);
    EXPECT_EQ(chip.shared_bytes_per_block, most_shared_bytes(chip.compute_capability)) << chip;
    EXPECT_EQ(chip.shared_bytes_per_multiprocessor, chip.shared_bytes_per_block + 1024) << chip;
    EXPECT_GT(chip.l2_bytes, 1 << 20) << chip;
    EXPECT_GT(chip.memory_rate, 0.2e12) << chip;
    EXPECT_GT(chip.l2_rate, chip.memory_rate) << chip;
    EXPECT_EQ(chip.source == ChipSource::kMeasured, chip.name == "NVIDIA H200") << chip;
  }
  EXPECT_THROW(chip_of("NVIDIA H2000"), std::runtime_error);
}

TEST(Chip, ArchitecturesHaveTheirSharedMemory) {
  EXPECT_EQ(most_shared_bytes(80), 163 << 10);
  EXPECT_EQ(most_shared_bytes(86), 99 << 10);
  EXPECT_EQ(most_shared_bytes(89), 99 << 10);
  EXPECT_EQ(most_shared_bytes(90), 227 << 10);
  EXPECT_EQ(most_shared_bytes(100), 227 << 10);
  EXPECT_EQ(most_shared_bytes(120), 99 << 10);
}

// 48.7 TFLOP/s in TF32, by NVIDIA's data sheet; a chip for workstations would have twice as much.
TEST(Chip, OthersAreDerivedFromWhatTheySay) {
  DeviceFacts facts = rtx_4080();
  const Chip chip = make_chip(facts);
  EXPECT_EQ(chip.source, ChipSource::kDerived);
  EXPECT_NEAR(tflops(chip, chip.multiply_adds.float32), 48.7, 0.1);
  EXPECT_NEAR(tflops(chip, chip.multiply_adds.tf32_matrix), 48.7, 0.1);
  EXPECT_NEAR(tflops(chip, chip.multiply_adds.half_matrix), 97.5, 0.2);
  EXPECT_NEAR(chip.memory_rate, 0.9 * 716.8e9, 1e6);
  EXPECT_EQ(chip.l2_bytes, 64 << 20);
  facts.name = "NVIDIA RTX 4000 Ada Generation";
  EXPECT_EQ(make_chip(facts).multiply_adds.tf32_matrix, 2 * chip.multiply_adds.tf32_matrix);
}

TEST(Chip, AServersTensorCoresRunBelowTheHighestClock) {
  const Chip chip = make_chip({.name = "NVIDIA GH200 480GB",
                               .compute_capability = 90,
                               .multiprocessors = 132,
                               .clock_hz = 1.98e9,
                               .memory_rate = 4.023e12});
  EXPECT_EQ(chip.source, ChipSource::kDerived);
  EXPECT_NEAR(tflops(chip, chip.multiply_adds.tf32_matrix), 494.7, 1);
}

// A part of a known chip has that chip's clock and as many multiprocessors as it says.
TEST(Chip, CountsAreWhatTheDeviceSays) {
  DeviceFacts facts = rtx_4080();
  facts.name = "NVIDIA GeForce RTX 4090";
  const Chip chip = make_chip(facts);
  EXPECT_EQ(chip.source, ChipSource::kTable);
  EXPECT_EQ(chip.multiprocessors, 76);
  EXPECT_EQ(chip.clock_hz, 2.52e9);
  EXPECT_EQ(chip.memory_rate, chip_of("NVIDIA GeForce RTX 4090").memory_rate);
}

TEST(Chip, ADeviceThatSaysNoClocksHasRatesAllTheSame) {
  const Chip chip = make_chip({.name = "GRID", .compute_capability = 86, .multiprocessors = 10});
  EXPECT_GT(chip.clock_hz, 0);
  EXPECT_GT(chip.memory_rate, 0);
  EXPECT_GT(chip.l2_rate, 0);
}

TEST(Chip, ArchitecturesToComeHaveTensorCores) {
  const MultiplyAdds rates = multiply_adds_of(150, false);
  EXPECT_GT(rates.float32, 0);
  EXPECT_GT(rates.float64, 0);
  EXPECT_GT(rates.tf32_matrix, 0);
  EXPECT_GT(rates.half_matrix, 0);
}

TEST(Chip, IdentityTellsKindsOfChipsApart) {
  std::set<int64_t> identities;
  for (const KnownChip& known : known_chips()) identities.insert(chip_of(known.name).identity());
  EXPECT_EQ(identities.size(), known_chips().size());
  EXPECT_EQ(chip_of("NVIDIA H200").identity(), h200().identity());
  Chip part = h200();
  part.multiprocessors = 66;
  EXPECT_NE(part.identity(), h200().identity());
}

// Files may keep it: it must not depend on the process or the build.
TEST(Chip, IdentityIsTheSameInEveryProcess) { EXPECT_EQ(h200().identity(), 7471926743094135030); }

TEST(Chip, SaysWhereItsFiguresComeFrom) {
  const std::string measured = text_of(h200()), derived = text_of(make_chip(rtx_4080()));
  EXPECT_NE(measured.find("NVIDIA H200: compute capability 9.0, 132 multiprocessors"),
            std::string::npos)
      << measured;
  EXPECT_NE(measured.find("on which the cost models were measured"), std::string::npos) << measured;
  EXPECT_EQ(measured.find('\n'), std::string::npos);
  EXPECT_NE(text_of(chip_of("NVIDIA L4")).find("scaled from an H200"), std::string::npos);
  EXPECT_EQ(text_of(make_chip({.name = "unknown", .multiprocessors = 1})), "unknown");
  EXPECT_NE(derived.find("derived"), std::string::npos) << derived;
}

TEST(ChipScale, IsExactlyOneForTheChipThatWasMeasured) {
  EXPECT_EQ(clock_scale(h200()), 1);
  EXPECT_EQ(memory_scale(h200()), 1);
  EXPECT_EQ(l2_scale(h200()), 1);
  EXPECT_EQ(tf32_scale(h200()), 1);
}

TEST(ChipScale, FollowsTheChip) {
  const Chip chip = chip_of("NVIDIA H100 PCIe");
  EXPECT_NEAR(clock_scale(chip), 1.62 / 1.83, 1e-9);
  EXPECT_NEAR(memory_scale(chip), 0.9 * 2.039 / 4.3, 1e-9);
  EXPECT_NEAR(tf32_scale(chip), 378.2 / 494.7, 1e-3);
}

}  // namespace
}  // namespace haloconv::testing
