// The implementation that the calling thread's convolutions were told to use: see
// ForceImplementation in conv2d.h.
#pragma once

#include <string>
#include <string_view>

namespace haloconv {

// A group of families, a family, or ATen, by one of forceable_names(); empty: the choice is
// automatic. Equal names have equal addresses.
using Forced = std::string_view;

// Of this thread.
Forced forced_implementation();

// By the name that users give and read, "auto" for none. Raises c10::Error for an unknown one.
Forced forced_by_name(std::string_view name);
std::string_view name_of_forced(Forced forced);

// While it lives, this thread's is `forced`. A backward node computes within one, by what it was
// made under: the autograd engine may run it in another thread, and after the caller's own scope.
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
