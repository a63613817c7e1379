// A value that is made at most once, by whichever thread first needs it.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

namespace haloconv::tuning {

template <class T>
class Once {
 public:
  // The value, or null if there is none yet. Never waits.
  const T* peek() const { return made_.load(std::memory_order_acquire) ? &*value_ : nullptr; }

  // The value. If there is none, make() makes it, an optional<T>; if that is empty, the result is
  // null, and a later call tries again. While one thread makes it, the others wait. What make()
  // throws goes to its own caller, and one of those who wait makes the value instead.
  template <class Make>
  const T* get(const Make& make) {
    if (const T* value = peek()) return value;
    const std::lock_guard lock(mutex_);
    return get_locked(make);
  }

  // The same, but null while another thread makes the value.
  template <class Make>
  const T* try_get(const Make& make) {
    if (const T* value = peek()) return value;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return lock.owns_lock() ? get_locked(make) : nullptr;
  }

 private:
  template <class Make>
  const T* get_locked(const Make& make) {
    if (value_) return &*value_;
    value_ = make();
    if (!value_) return nullptr;
    made_.store(true, std::memory_order_release);
    return &*value_;
  }

  std::atomic<bool> made_ = false;  // after which value_ never changes
  std::mutex mutex_;
  std::optional<T> value_;
};

}  // namespace haloconv::tuning
