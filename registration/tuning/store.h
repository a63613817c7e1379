// All results that this process timed or read from files, and the file that keeps them.
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

// For any number of threads. What it knows of a problem stays until clear(), so that a problem's
// choice does not change while a process runs. It therefore grows, by some hundred bytes with each
// timed problem; a timing takes some ten milliseconds.
class Store {
 public:
  struct Options {
    Environment here;                 // without a device, which is given with each problem
    std::filesystem::path file = {};  // read now if it exists, and kept up to date; "": none
    std::chrono::milliseconds between_writes{1000};  // the least time between writes of that file
    std::function<void(const std::string&)> warn = [](const std::string&) {};
  };

  explicit Store(Options options);

  const Environment& here() const { return options_.here; }

  // The known result. Warns if a loaded file has nothing for this environment, once for each file.
  std::optional<Record> find(const Environment& environment, std::string_view problem);

  // Adds a result that was timed here, and returns what is known now. The result replaces one from
  // a file, which was of no use if this one was timed, but not one of another thread. The kept file
  // may be written. A result that is not `of_all` contenders, because some lacked memory, holds for
  // this process alone and goes to no file.
  Record add(const Environment& environment, const std::string& problem, const Record& record,
             bool of_all = true);

  // Adds what a file says of problems of which nothing is known yet. Warns if the file is corrupt
  // or for other versions; raises std::system_error if it cannot be read.
  void load(const std::filesystem::path& file);

  // Adds all that is known to a file. What was timed here replaces what the file says of the same
  // problem. Raises what update_records() raises, and std::runtime_error if another process has
  // locked the file for long.
  void save(const std::filesystem::path& file);

  // Forgets all, also what has not been written to the kept file. No file changes.
  void clear();

  // Writes what the kept file still lacks, at the end of the process.
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
  // The warning that a loaded file has nothing for the environment, if that is so and has not been
  // said.
  static std::optional<std::string> judge(LoadedFile& file, const Environment& environment);

  const Options options_;
  std::mutex mutex_;  // for what follows, but not held during warnings or while files are used
  std::map<Environment, KnownByProblem> known_;
  std::vector<LoadedFile> loaded_;
  bool unwritten_ = false;   // whether the kept file lacks something
  bool unwritable_ = false;  // it could not be written, which is not tried again
  std::chrono::steady_clock::time_point next_write_{};
};

}  // namespace haloconv::tuning
