// A file that appears under its name whole or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>

namespace haloconv {

// A draft is in the folder of the file that it is to become, with that file's permissions from the
// start. It has no name until then, so that nothing of it is left if the process ends. If the file
// system or the kernel has no such files, it is haloconv-*.part, and a process that ends without
// abandon_all() leaves it. Constructor, check() and keep() raise std::runtime_error that says what
// is wrong, std::system_error if the system reported it.
class Draft {
 public:
  // A draft of `target`, or of the file to which it links; neither need exist.
  explicit Draft(const std::filesystem::path& target);
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  // After an error it does nothing more, and check() raises the error: an exception must not pass
  // through callers in C.
  void write(const void* data, size_t size) noexcept;
  void check() const;

  // The path by which this process can read it meanwhile.
  std::string path() const;

  // Takes the target's place, after all of it is on the disk.
  void keep();

  // For a process that is about to end: removes all its drafts. Threads that make, keep or destroy
  // one then wait for ever. A signal handler must not call it, because it may interrupt such a
  // thread.
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
