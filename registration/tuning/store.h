// All that timing found in this process or files told, and the file that keeps it.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "registration/tuning/records.h"

namespace haloconv::tuning {

// For any number of threads. What it has been told of a problem stays until clear(), so that a
// problem's choice does not change while a process runs. It therefore grows, by some hundred bytes
// with each problem that was timed, which took some ten milliseconds.
class Store {
 public:
  struct Options {
    Environment here;  // without a device: which one records are of is asked with each problem
    std::filesystem::path file = {};  // read now if it is there, and kept up to date; "": none
    std::chrono::milliseconds between_writes{1000};  // of that file, at least
    std::function<void(const std::string&)> warn = [](const std::string&) {};
  };

  explicit Store(Options options);

  const Environment& here() const { return options_.here; }

  // What is known. Warns, once for each file, if one that was loaded has nothing for this
  // environment.
  std::optional<Record> find(const Environment& environment, std::string_view problem);

  // What was timed here; gives what is known now. It takes the place of a file's record, which then
  // was of no use, but not of another thread's. The kept file may be written. Unless it is `of_all`
  // contenders, as where some lacked memory, it holds for this process and goes to no file.
  Record add(const Environment& environment, const std::string& problem, const Record& record,
             bool of_all = true);

  // Adds what a file says of problems that nothing is known of yet. Warns where the file is corrupt
  // or not of these versions; raises std::system_error where it cannot be read.
  void load(const std::filesystem::path& file);

  // Puts all that is known into a file, beside what it holds. What was timed here replaces what the
  // file says of the same problem. Raises what update_records() does, and std::runtime_error where
  // another process has had the file locked for long.
  void save(const std::filesystem::path& file);

  // Forgets all, what has not been written to the kept file too. No file changes.
  void clear();

  // Writes to the kept file what has not been written yet, for the end of the process.
  void flush();

 private:
  struct Known {
    Record record;
    bool timed_here;
    bool of_all = true;
  };
  using KnownByProblem = std::map<std::string, Known, std::less<>>;
  struct LoadedFile {
    std::filesystem::path name;
    std::vector<Environment> environments;
    bool warned = false;
  };

  bool merge_into(const std::filesystem::path& file, std::chrono::milliseconds patience);
  void write_kept_file(std::chrono::milliseconds patience);
  // The warning that a loaded file has nothing for the environment, where that is so and the first
  // time.
  static std::optional<std::string> judge(LoadedFile& file, const Environment& environment);

  const Options options_;
  std::mutex mutex_;  // of what follows; not held while files are read or written, nor at a warning
  std::map<Environment, KnownByProblem> known_;
  std::vector<LoadedFile> loaded_;
  bool unwritten_ = false;   // whether the kept file lacks something
  bool unwritable_ = false;  // it could not be written: that is not tried again
  std::chrono::steady_clock::time_point next_write_{};
};

}  // namespace haloconv::tuning
