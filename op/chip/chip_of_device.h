// The chips of this process's CUDA devices.
#pragma once

#include <string>

#include "chip/chip.h"

namespace haloconv {

// Asked of the device at the first call, then kept as long as the process lives. The chip is called
// "unknown" where the driver is too old to say more to the kernels' CUDA runtime.
const Chip& chip_of_device(int device);
const Chip& chip_of_current_device();

// Why none of the kernels runs on the device; "" where they do.
const std::string& why_no_kernels(int device);

// The newest CUDA that the driver serves, as CUDA counts (13020 is 13.2); 0 where there is no
// driver. Does not start CUDA.
int driver_version();

}  // namespace haloconv
