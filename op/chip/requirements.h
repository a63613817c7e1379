// What compiled kernels need from a machine. Versions of CUDA are as CUDA counts: 13020 is 13.2.
#pragma once

#include <string>

namespace haloconv {

// Why a driver for CUDA `driver` runs nothing that CUDA `compiler` made; "" if it does.
std::string lack_of_driver(int driver, int compiler);

// Why CUDA `compiler` makes no kernels for the compute capability; "" if it does.
std::string lack_of_capability(int compute_capability, int compiler);

}  // namespace haloconv
