// A value that is worked out when it is first asked for, by one thread, and then kept.
#pragma once

#include <mutex>
#include <optional>

namespace haloconv {

template <class T>
class Once {
 public:
  // The value that the first call's make() returned. If it throws, the next call tries again.
  template <class Make>
  const T& get(Make make) const {
    std::call_once(flag_, [&] { value_ = make(); });
    return *value_;
  }

 private:
  mutable std::once_flag flag_;
  mutable std::optional<T> value_;
};

}  // namespace haloconv
