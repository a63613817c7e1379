// How contenders are timed, whatever measures the time.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace haloconv::tuning {

// What timing needs from a device.
class Stopwatch {
 public:
  using Duration = std::chrono::steady_clock::duration;

  virtual ~Stopwatch() = default;

  // Makes the device wait somewhat longer than the host needs to enqueue what follows.
  virtual void let_the_host_run_ahead(Duration host) = 0;
  // Makes the device fill its caches with data that no contender reads; does nothing after
  // give_up_filling().
  virtual void fill_caches() = 0;
  // Frees the memory that filling takes. False if there is none to free.
  virtual bool give_up_filling() = 0;
  // Enqueues a mark, which the device reaches when it has done all before it. Returns its number,
  // from 0 on.
  virtual size_t mark() = 0;
  // Milliseconds from one mark to another, after the device has reached both.
  virtual double elapsed_ms(size_t from, size_t to) = 0;
};

// The shortest time of each contender in milliseconds a run, infinity for one that fails. run(i)
// enqueues a contender.
std::vector<double> shortest_times(size_t contenders, const std::function<void(size_t)>& run,
                                   Stopwatch& stopwatch);

}  // namespace haloconv::tuning
