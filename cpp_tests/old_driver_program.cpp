// A program whose driver is old_driver.cpp: it prints what is known of the first device, and why no
// kernel runs there.
#include <cstdio>

#include "chip/chip_of_device.h"

int main() {
  std::printf("%s\n%s\n", haloconv::chip_of_device(0).name.c_str(),
              haloconv::why_no_kernels(0).c_str());
  return 0;
}
