// What a multiprocessor of compute capability 9.0 has.
#pragma once

#include "chip/chip.h"

namespace haloconv {

// Bytes of shared memory that a block may have.
inline constexpr int kMaxShared = static_cast<int>(most_shared_bytes(90));

}  // namespace haloconv
