#include "registration/tuning/store.h"

#include <algorithm>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "registration/tuning/records_file.h"

namespace haloconv::tuning {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// How long this process waits while others write its file: in a call of a convolution, at the end
// of the process, and if the user asks for it.
constexpr milliseconds kPatienceInCall(0), kPatienceAtEnd(2000), kPatienceInSave(30000);

}  // namespace

Store::Store(Options options) : options_(std::move(options)) {
  if (options_.file.empty()) return;
  try {
    load(options_.file);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::no_such_file_or_directory) return;  // it will be written
    options_.warn("haloconv: the tuning results in \"" + options_.file.native() +
                  "\" cannot be read: " + error.what());
  }
}

std::optional<Record> Store::find(const Environment& environment, std::string_view problem) {
  std::vector<std::string> warnings;
  std::optional<Record> record;
  {
    const std::lock_guard lock(mutex_);
    for (LoadedFile& file : loaded_) {
      if (auto warning = judge(file, environment)) warnings.push_back(std::move(*warning));
    }
    if (const auto of_it = known_.find(environment); of_it != known_.end()) {
      const auto found = of_it->second.find(problem);
      if (found != of_it->second.end()) record = found->second.record;
    }
  }
  for (const std::string& warning : warnings) options_.warn(warning);
  return record;
}

Record Store::add(const Environment& environment, const std::string& problem, const Record& record,
                  bool of_all) {
  {
    const std::lock_guard lock(mutex_);
    const Known timed = {.record = record, .timed_here = true, .of_all = of_all};
    const auto [known, is_new] = known_[environment].try_emplace(problem, timed);
    if (!is_new && known->second.timed_here) return known->second.record;
    known->second = timed;
    if (!of_all) return record;
    unwritten_ = true;
    if (Clock::now() < next_write_) return record;
  }
  write_kept_file(kPatienceInCall);
  return record;
}

void Store::load(const std::filesystem::path& file) {
  RecordsByEnvironment records;
  try {
    records = read_records(file);
  } catch (const std::system_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    options_.warn("haloconv: the tuning results in \"" + file.native() +
                  "\" are ignored: " + error.what());
    return;
  }
  std::optional<std::string> warning;
  {
    const std::lock_guard lock(mutex_);
    LoadedFile loaded{.name = file, .environments = {}};
    for (auto& [environment, of_it] : records) {
      loaded.environments.push_back(environment);
      for (auto& [problem, record] : of_it) {
        const Known told = {.record = std::move(record), .timed_here = false};
        known_[environment].try_emplace(problem, told);
      }
    }
    warning = judge(loaded, here());
    loaded_.push_back(std::move(loaded));
  }
  if (warning) options_.warn(*warning);
}

void Store::save(const std::filesystem::path& file) {
  if (!merge_into(file, kPatienceInSave)) {
    throw std::runtime_error("another process has it locked");
  }
}

void Store::clear() {
  const std::lock_guard lock(mutex_);
  known_.clear();
  loaded_.clear();
  unwritten_ = false;
}

void Store::flush() { write_kept_file(kPatienceAtEnd); }

bool Store::merge_into(const std::filesystem::path& file, milliseconds patience) {
  std::unique_lock lock(mutex_);
  const auto known = known_;
  lock.unlock();
  return update_records(file, patience, [&](RecordsByEnvironment& records) {
    for (const auto& [environment, of_it] : known) {
      for (const auto& [problem, found] : of_it) {
        if (!found.of_all) continue;
        const auto [record, is_new] = records[environment].try_emplace(problem, found.record);
        if (!is_new && found.timed_here) record->second = found.record;
      }
    }
  });
}

void Store::write_kept_file(milliseconds patience) {
  {
    const std::lock_guard lock(mutex_);
    if (options_.file.empty() || !unwritten_ || unwritable_) return;
    unwritten_ = false;  // what comes from now on sets it again
    next_write_ = Clock::now() + options_.between_writes;
  }
  try {
    if (merge_into(options_.file, patience)) return;
    const std::lock_guard lock(mutex_);
    unwritten_ = true;
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(mutex_);
      unwritable_ = true;
    }
    options_.warn("haloconv: tuning results are not kept, since \"" + options_.file.native() +
                  "\" cannot be written: " + error.what());
  }
}

std::optional<std::string> Store::judge(LoadedFile& file, const Environment& environment) {
  if (file.warned || file.environments.empty()) return std::nullopt;
  std::vector<std::string> least;
  for (const Environment& theirs : file.environments) {
    auto differing = differences(theirs, environment);
    if (differing.empty()) return std::nullopt;
    if (least.empty() || differing.size() < least.size()) least = std::move(differing);
  }
  file.warned = true;
  std::string warning =
      "haloconv: the tuning results in \"" + file.name.native() + "\" are ignored: ";
  for (size_t i = 0; i < least.size(); ++i) warning += (i == 0 ? "" : ", ") + least[i];
  return warning;
}

}  // namespace haloconv::tuning
