// The chips of this process's CUDA devices.
#pragma once

#include <string>

#include "chip/chip.h"

namespace haloconv {

// The device is asked at the first call, and the answer kept as long as the process lives. The chip
// is called "unknown" if the driver is too old for the kernels' CUDA runtime to learn more.
const Chip& chip_of_device(int device);
const Chip& chip_of_current_device();

// Why none of the kernels runs on the device; "" if they do.
const std::string& why_no_kernels(int device);

// The newest CUDA that the driver serves, as CUDA counts (13020 is 13.2); 0 if there is no
// driver. Does not start CUDA.
int driver_version();

}  // namespace haloconv
