// The implementation that the calling thread's convolutions were told to use: see
// ForceImplementation in conv2d.h.
#pragma once

#include <string>
#include <string_view>

namespace haloconv {

// One of forceable_names(): a group of families, a family, or ATen. Empty if the choice is
// automatic. Equal names have equal addresses.
using Forced = std::string_view;

// What this thread's convolutions are told to use.
Forced forced_implementation();

// From and to the names that users give and read, which are "auto" if nothing is forced. Raises
// c10::Error for an unknown name.
Forced forced_by_name(std::string_view name);
std::string_view name_of_forced(Forced forced);

// While it lives, this thread's convolutions use `forced`. A backward node makes one with what was
// forced when the node was made, because the autograd engine may run the node in another thread,
// and after the caller's scope has ended.
class ForceInThread {
 public:
  explicit ForceInThread(Forced forced);
  ~ForceInThread();
  ForceInThread(const ForceInThread&) = delete;
  ForceInThread& operator=(const ForceInThread&) = delete;

 private:
  Forced previous_;
};

}  // namespace haloconv
