// How contenders are timed, whatever measures the time.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace haloconv::tuning {

// What timing asks of a device.
class Stopwatch {
 public:
  using Duration = std::chrono::steady_clock::duration;

  virtual ~Stopwatch() = default;

  // Has the device wait for somewhat longer than the host needs to enqueue what follows.
  virtual void let_the_host_run_ahead(Duration host) = 0;
  // Has the device leave nothing in its caches that a contender reads; nothing once it was given
  // up.
  virtual void fill_caches() = 0;
  // Frees the memory that this takes. False where there is none to free.
  virtual bool give_up_filling() = 0;
  // What the device is at when it has done what was enqueued before: the next number from 0 on.
  virtual size_t mark() = 0;
  // Milliseconds from one mark to another, once the device has come to both.
  virtual double elapsed_ms(size_t from, size_t to) = 0;
};

// The shortest time of each contender in milliseconds, infinity where it fails; run(i) enqueues it.
std::vector<double> shortest_times(size_t contenders, const std::function<void(size_t)>& run,
                                   Stopwatch& stopwatch);

}  // namespace haloconv::tuning
