// Chips of which more is known than their devices report.
#pragma once

#include <span>
#include <string_view>

#include "chip/chip.h"

namespace haloconv {

struct KnownChip {
  std::string_view name;  // as the driver gives it
  int compute_capability;
  int multiprocessors;
  double clock_hz;     // see Chip
  double memory_rate;  // of a copy
  int64_t l2_bytes;
  bool is_measured = false;  // the cost models were fitted on it
};

std::span<const KnownChip> known_chips();

// null: not known.
const KnownChip* find_known_chip(std::string_view name);

// The chip as a device of that name would describe it; an error if it is not known.
Chip chip_of(std::string_view name);

// The chip on which the cost models were fitted.
const Chip& h200();

}  // namespace haloconv
