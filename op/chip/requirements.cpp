#include "chip/requirements.h"

#include "chip/chip.h"

namespace haloconv {

std::string lack_of_driver(int driver, int compiler) {
  const int needed = compiler / 1000;  // any of the same major version
  if (driver / 1000 >= needed) return "";
  return "the driver is for CUDA " + std::to_string(driver / 1000) + '.' +
         std::to_string(driver % 1000 / 10) + ", but the kernels need one for CUDA " +
         std::to_string(needed) + " or newer";
}

std::string lack_of_capability(int compute_capability, int compiler) {
  const int oldest = compiler >= 13000 ? 75 : 50;
  if (compute_capability >= oldest) return "";
  return "the compute capability is " + compute_capability_text(compute_capability) +
         ", but the kernels need " + compute_capability_text(oldest) + " or newer";
}

}  // namespace haloconv
