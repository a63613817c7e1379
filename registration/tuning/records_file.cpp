#include "registration/tuning/records_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <thread>

#include "registration/draft.h"

namespace haloconv::tuning {
namespace {

[[noreturn]] void fail() { throw std::system_error(errno, std::generic_category()); }

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& file, int flags)
      : number_(::open(file.c_str(), flags | O_CLOEXEC, 0666)) {
    if (number_ < 0) fail();
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

std::string text_of(const std::filesystem::path& name) {
  const Descriptor file(name, O_RDONLY | O_NONBLOCK);  // a pipe would wait for who writes it
  std::string text;
  char block[1 << 16];
  while (const ssize_t bytes = ::read(file.number(), block, sizeof block)) {
    if (bytes > 0) text.append(block, bytes);
    if (bytes < 0 && errno != EINTR) fail();
  }
  return text;
}

// Whether this process has the lock now; it ends with the file. On a file system without locks
// nothing waits: what another process wrote may then be lost, but no file is broken.
bool lock(const Descriptor& file, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause(5);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (::flock(file.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) fail();
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

// The records with which update_records() begins; none if there is no file, or a corrupt one.
std::optional<RecordsByEnvironment> read_to_replace(const std::filesystem::path& file) {
  try {
    return read_records(file);
  } catch (const OtherFormat&) {
    throw;
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::no_such_file_or_directory) return std::nullopt;
    throw;
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

}  // namespace

RecordsByEnvironment read_records(const std::filesystem::path& file) {
  return parse_records(text_of(file));
}

bool update_records(const std::filesystem::path& file, std::chrono::milliseconds patience,
                    const std::function<void(RecordsByEnvironment&)>& update) {
  const Descriptor lock_file(file.native() + ".lock", O_RDWR | O_CREAT);
  if (!lock(lock_file, patience)) return false;
  const std::optional<RecordsByEnvironment> before = read_to_replace(file);
  RecordsByEnvironment records = before.value_or(RecordsByEnvironment());
  update(records);
  if (records == before) return true;
  Draft draft(file);
  const std::string text = to_text(records);
  draft.write(text.data(), text.size());
  draft.keep();
  return true;
}

}  // namespace haloconv::tuning
