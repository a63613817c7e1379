#include "registration/draft.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>

namespace haloconv {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(int error) { throw std::system_error(error, std::generic_category()); }

// The file to which `name` leads through links; it need not exist.
fs::path target_of(fs::path name) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  for (int i = 0; i < kMostLinks && fs::is_symlink(name); ++i) {
    name = name.parent_path() / fs::read_symlink(name);
  }
  const fs::file_type kind = fs::symlink_status(name).type();
  if (kind != fs::file_type::regular && kind != fs::file_type::not_found) {
    throw std::runtime_error("expected a file, or a name that is free");
  }
  return name;
}

std::optional<mode_t> permissions_of(const fs::path& file) {
  struct stat found;
  if (::stat(file.c_str(), &found) != 0) return std::nullopt;
  return found.st_mode & 0777;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// Held whenever a draft gets or loses a name.
std::mutex mutex;

// Never destroyed: drafts may live as long as the process.
std::set<const Draft*>& all_drafts() {
  static auto& drafts = *new std::set<const Draft*>;
  return drafts;
}

// A signal that ends the process finds the file nameless or in its place, not in between.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Draft::Draft(const fs::path& target) : target_(target_of(target)) {
  const std::optional<mode_t> permissions = permissions_of(target_);
  const mode_t mode = permissions ? 0600 : 0666;  // 0666: less what umask takes
  const std::lock_guard lock(mutex);
  if (!open_nameless(mode)) {
    for (int attempt = 0; !open_named(mode, attempt); ++attempt) {
      if (errno != EEXIST) fail(errno);
    }
  }
  if (permissions && ::fchmod(file_, *permissions) != 0) error_ = errno;
  all_drafts().insert(this);
}

Draft::~Draft() {
  const std::lock_guard lock(mutex);
  all_drafts().erase(this);
  ::close(file_);
  if (!name_.empty()) ::unlink(name_.c_str());
}

bool Draft::open_nameless(mode_t mode) {
  file_ = ::open(folder_of(target_).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
  if (file_ < 0) return false;
  if (::access(path().c_str(), F_OK) == 0)
    return true;  // else there is no /proc, and no way to link
  ::close(file_);
  return false;
}

// Opens a file that nobody else has; false, with errno, if that fails.
bool Draft::open_named(mode_t mode, int attempt) {
  make_name(attempt);
  file_ = ::open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (file_ < 0) name_.clear();
  return file_ >= 0;
}

void Draft::make_name(int attempt) {
  name_ = folder_of(target_) /
          ("haloconv-" + std::to_string(getpid()) + '-' + std::to_string(attempt) + ".part");
}

void Draft::write(const void* data, size_t size) noexcept {
  const char* next = static_cast<const char*>(data);
  while (size > 0 && error_ == 0) {
    const ssize_t written = ::write(file_, next, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      error_ = errno;
    } else {
      next += written;
      size -= static_cast<size_t>(written);
    }
  }
}

void Draft::check() const {
  if (error_ != 0) fail(error_);
}

std::string Draft::path() const {
  return name_.empty() ? "/proc/self/fd/" + std::to_string(file_) : name_.string();
}

void Draft::keep() {
  check();
  if (::fsync(file_) != 0) fail(errno);
  const WithoutSignals guard;
  const std::lock_guard lock(mutex);
  if (name_.empty()) {
    const std::string nameless = path();
    for (int attempt = 0;; ++attempt) {
      make_name(attempt);
      if (::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name_.c_str(), AT_SYMLINK_FOLLOW) == 0) {
        break;
      }
      name_.clear();
      if (errno != EEXIST) fail(errno);
    }
  }
  fs::rename(name_, target_);
  name_.clear();  // it may be another draft's by now
}

void Draft::abandon_all() {
  mutex.lock();
  for (const Draft* draft : all_drafts()) {
    if (!draft->name_.empty()) ::unlink(draft->name_.c_str());
  }
}

}  // namespace haloconv
