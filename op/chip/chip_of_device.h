// The chips of this process's CUDA devices.
#pragma once

#include "chip/chip.h"

namespace haloconv {

// Asked of the device at the first call, then kept as long as the process lives.
const Chip& chip_of_device(int device);
const Chip& chip_of_current_device();

}  // namespace haloconv
