// What a process knows of timed problems, and how that comes from files and goes to one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "cpp_tests/tuning_samples.h"
#include "registration/tuning/records_file.h"
#include "registration/tuning/store.h"

namespace haloconv::tuning {
namespace {

using std::chrono::milliseconds;

Record plan(const std::string& name) { return {.family = "halo", .plan = name, .ms = 1}; }

// A store whose warnings are kept.
struct Watched {
  explicit Watched(const std::filesystem::path& file = {}, milliseconds between_writes = {})
      : store({.here = kVersions,
               .file = file,
               .between_writes = between_writes,
               .warn = [this](const std::string& text) { warnings.push_back(text); }}) {}

  std::vector<std::string> warnings;
  Store store;
};

void write_records(const std::filesystem::path& file, const RecordsByEnvironment& records) {
  write(file, to_text(records));
}

TEST(TuningStore, FindsWhatWasTimed) {
  Watched watched;
  Store& store = watched.store;
  EXPECT_EQ(store.find(kHere, "p"), std::nullopt);
  store.add(kHere, "p", plan("a"));
  EXPECT_EQ(store.find(kHere, "p"), plan("a"));
  EXPECT_EQ(store.find(kHere, "q"), std::nullopt);
  EXPECT_EQ(store.find(on_device("another"), "p"), std::nullopt);
  store.add(kHere, "p", plan("b"));
  EXPECT_EQ(store.find(kHere, "p"), plan("a"));
  store.clear();
  EXPECT_EQ(store.find(kHere, "p"), std::nullopt);
  EXPECT_TRUE(watched.warnings.empty());
}

TEST(TuningStore, WhatIsKnownStaysWhateverIsLoaded) {
  const Folder folder;
  write_records(folder / "1", {{kHere, {{"p", plan("1")}, {"q", plan("1")}}}});
  write_records(folder / "2", {{kHere, {{"q", plan("2")}, {"r", plan("2")}}}});
  Watched watched;
  watched.store.add(kHere, "p", plan("a"));
  watched.store.load(folder / "1");
  watched.store.load(folder / "2");
  EXPECT_EQ(watched.store.find(kHere, "p"), plan("a"));
  EXPECT_EQ(watched.store.find(kHere, "q"), plan("1"));
  EXPECT_EQ(watched.store.find(kHere, "r"), plan("2"));
}

// Timed though on record: the record's plan is not there any more.
TEST(TuningStore, ATimingReplacesALoadedRecord) {
  const Folder folder;
  write_records(folder / "1", {{kHere, {{"p", plan("gone")}}}});
  Watched watched;
  watched.store.load(folder / "1");
  watched.store.add(kHere, "p", plan("a"));
  EXPECT_EQ(watched.store.find(kHere, "p"), plan("a"));
}

TEST(TuningStore, SavesBesideWhatAFileHolds) {
  const Folder folder;
  const auto file = folder / "tuning.json";
  const RecordsByEnvironment others = {{on_device("another"), {{"p", plan("x")}}},
                                       {kHere, {{"p", plan("y")}, {"q", plan("z")}}}};
  write_records(file, others);
  Watched watched;
  watched.store.add(kHere, "p", plan("a"));
  watched.store.save(file);
  RecordsByEnvironment both = others;
  both[kHere]["p"] = plan("a");
  EXPECT_EQ(read_records(file), both);
}

TEST(TuningStore, KeepsWhatIsNotOfAllContendersToItself) {
  const Folder folder;
  write_records(folder / "1", {{kHere, {{"p", plan("old")}}}});
  Watched watched(folder / "1");
  watched.store.add(kHere, "p", plan("a"), false);
  watched.store.add(kHere, "q", plan("a"), false);
  EXPECT_EQ(watched.store.find(kHere, "p"), plan("a"));
  EXPECT_EQ(watched.store.find(kHere, "q"), plan("a"));
  watched.store.flush();
  watched.store.save(folder / "1");
  EXPECT_EQ(read_records(folder / "1"), (RecordsByEnvironment{{kHere, {{"p", plan("old")}}}}));
}

// Another process may have timed it later, after a clear().
TEST(TuningStore, WhatWasOnlyLoadedReplacesNothing) {
  const Folder folder;
  write_records(folder / "1", {{kHere, {{"p", plan("old")}, {"q", plan("old")}}}});
  write_records(folder / "2", {{kHere, {{"p", plan("new")}}}});
  Watched watched;
  watched.store.load(folder / "1");
  watched.store.save(folder / "2");
  EXPECT_EQ(read_records(folder / "2"),
            (RecordsByEnvironment{{kHere, {{"p", plan("new")}, {"q", plan("old")}}}}));
}

TEST(TuningStore, WarnsOfOtherVersionsWhenItLoads) {
  const Folder folder;
  Environment far = kHere, near = kHere;
  far.torch = near.torch = "2.10.0";
  far.cudnn = "8.9.0";
  write_records(folder / "1", {{far, {{"p", plan("x")}}}, {near, {{"p", plan("y")}}}});
  Watched watched;
  watched.store.load(folder / "1");
  EXPECT_EQ(watched.warnings, std::vector<std::string>{"haloconv: the tuning results in \"" +
                                                       (folder / "1").native() +
                                                       "\" are ignored: torch 2.10.0 instead of "
                                                       "2.11.0"});
  EXPECT_EQ(watched.store.find(kHere, "p"), std::nullopt);
  EXPECT_EQ(watched.warnings.size(), 1);
}

TEST(TuningStore, WarnsOfAnotherDeviceWhenItIsAsked) {
  const Folder folder;
  write_records(folder / "1", {{on_device("another"), {{"p", plan("x")}}}});
  Watched watched;
  watched.store.load(folder / "1");
  EXPECT_TRUE(watched.warnings.empty());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(watched.store.find(kHere, "p"), std::nullopt);
  ASSERT_EQ(watched.warnings.size(), 1);
  EXPECT_TRUE(watched.warnings[0].ends_with("are ignored: device another instead of a chip"));
}

TEST(TuningStore, WarnsOfNothingWhereSomethingFits) {
  const Folder folder;
  write_records(folder / "1", {{on_device("another"), {}}, {kHere, {{"p", plan("x")}}}});
  Watched watched;
  watched.store.load(folder / "1");
  EXPECT_EQ(watched.store.find(kHere, "p"), plan("x"));
  EXPECT_TRUE(watched.warnings.empty());
}

TEST(TuningStore, WarnsOfACorruptFile) {
  const Folder folder;
  write(folder / "1", "{ half of");
  write(folder / "2", R"({"haloconv_tuning_format": 2})");
  Watched watched;
  watched.store.load(folder / "1");
  watched.store.load(folder / "2");
  ASSERT_EQ(watched.warnings.size(), 2);
  EXPECT_TRUE(watched.warnings[0].ends_with("are ignored: line 1, column 3: expected \""));
  EXPECT_TRUE(watched.warnings[1].ends_with("its format is 2, but this library's is 1"));
  EXPECT_THROW(watched.store.load(folder / "3"), std::system_error);
}

TEST(TuningKeptFile, IsReadAtTheStartAndWrittenAtEachResult) {
  const Folder folder;
  const auto file = folder / "tuning.json";
  {
    Watched first(file);
    first.store.add(kHere, "p", plan("a"));
    EXPECT_EQ(read_records(file), (RecordsByEnvironment{{kHere, {{"p", plan("a")}}}}));
    EXPECT_TRUE(first.warnings.empty());
  }
  Watched second(file);
  EXPECT_EQ(second.store.find(kHere, "p"), plan("a"));
}

TEST(TuningKeptFile, IsWrittenOnceInAWhileAndAtTheEnd) {
  const Folder folder;
  const auto file = folder / "tuning.json";
  Watched watched(file, std::chrono::hours(1));
  for (const char* problem : {"p", "q", "r"}) watched.store.add(kHere, problem, plan("a"));
  EXPECT_EQ(read_records(file).at(kHere).size(), 1);
  watched.store.flush();
  EXPECT_EQ(read_records(file).at(kHere).size(), 3);
}

TEST(TuningKeptFile, IsNotTouchedByClear) {
  const Folder folder;
  const auto file = folder / "tuning.json";
  Watched watched(file, std::chrono::hours(1));
  for (const char* problem : {"p", "q"}) watched.store.add(kHere, problem, plan("a"));
  watched.store.clear();
  watched.store.flush();
  EXPECT_EQ(read_records(file).at(kHere).size(), 1);
}

TEST(TuningKeptFile, WhereAnotherProcessWritesItIsWrittenLater) {
  const Folder folder;
  const auto file = folder / "tuning.json";
  Watched watched(file);
  update_records(file, milliseconds(0), [&](auto&) { watched.store.add(kHere, "p", plan("a")); });
  EXPECT_TRUE(read_records(file).empty());
  watched.store.add(kHere, "q", plan("a"));
  EXPECT_EQ(read_records(file).at(kHere).size(), 2);
}

TEST(TuningKeptFile, WarnsOnceWhereItCannotBeWritten) {
  const Folder folder;
  Watched watched(folder / "no" / "file");
  EXPECT_TRUE(watched.warnings.empty());
  for (const char* problem : {"p", "q"}) watched.store.add(kHere, problem, plan("a"));
  watched.store.flush();
  ASSERT_EQ(watched.warnings.size(), 1);
  EXPECT_TRUE(watched.warnings[0].ends_with("cannot be written: No such file or directory"));
  EXPECT_EQ(watched.store.find(kHere, "q"), plan("a"));
}

TEST(TuningKeptFile, WarnsWhereItCannotBeRead) {
  const Folder folder;
  std::filesystem::create_directory(folder / "folder");
  const Watched watched(folder / "folder");
  ASSERT_EQ(watched.warnings.size(), 1);
  EXPECT_TRUE(watched.warnings[0].ends_with("cannot be read: Is a directory"));
}

TEST(TuningKeptFile, ServesManyThreads) {
  constexpr int kThreads = 6, kRecords = 10;
  const Folder folder;
  const auto file = folder / "tuning.json";
  Watched watched(file);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kRecords; ++i) {
          const std::string problem = std::to_string(thread) + ' ' + std::to_string(i);
          watched.store.add(kHere, problem, plan("a"));
          ASSERT_EQ(watched.store.find(kHere, problem), plan("a"));
        }
      });
    }
  }
  watched.store.flush();
  EXPECT_EQ(read_records(file).at(kHere).size(), kThreads * kRecords);
  EXPECT_TRUE(watched.warnings.empty());
}

TEST(TuningKeptFile, ServesManyProcesses) {
  constexpr int kProcesses = 5, kRecords = 10;
  const Folder folder;
  const auto file = folder / "tuning.json";
  std::vector<pid_t> processes;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      Watched watched(file);
      for (int i = 0; i < kRecords; ++i) {
        watched.store.add(kHere, std::to_string(process) + ' ' + std::to_string(i), plan("a"));
      }
      watched.store.flush();
      ::_exit(watched.warnings.empty() ? 0 : 1);
    }
    processes.push_back(child);
  }
  for (const pid_t process : processes) {
    int status = -1;
    ::waitpid(process, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read_records(file).at(kHere).size(), kProcesses * kRecords);
}

}  // namespace
}  // namespace haloconv::tuning
