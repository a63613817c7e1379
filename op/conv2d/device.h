// What the planners know of a device.
#pragma once

namespace haloconv {

struct Device {
  int compute_capability = 90;  // major * 10 + minor
  int multiprocessors = 132;
};

}  // namespace haloconv
