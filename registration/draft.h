// A file that appears under its name whole or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>

namespace haloconv {

// In the folder of the file that it is to become, with that one's permissions from the start. It
// has no name until then, so that nothing is left of it if the process ends; where the file system
// or the kernel has no such files, it is haloconv-*.part, and a process that ends without
// abandon_all() leaves it. Constructor, check() and keep() raise std::runtime_error that says what
// is wrong, std::system_error where the system said so.
class Draft {
 public:
  // Of `target`, or of what it links to; it need not exist.
  explicit Draft(const std::filesystem::path& target);
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  // After an error it does nothing more, and check() raises it: callers in C let no exception pass.
  void write(const void* data, size_t size) noexcept;
  void check() const;

  // By which this process can read it meanwhile.
  std::string path() const;

  // Takes the target's place, once the disk has all of it.
  void keep();

  // For a process that is about to end: removes all its drafts. Threads that make, keep or destroy
  // one then wait for ever. Not to be called by a signal handler, which may interrupt one of these.
  static void abandon_all();

 private:
  bool open_nameless(mode_t mode);
  bool open_named(mode_t mode, int attempt);
  void make_name(int attempt);

  std::filesystem::path target_;
  std::filesystem::path name_;  // empty: it has none
  int file_ = -1;
  int error_ = 0;
};

}  // namespace haloconv
