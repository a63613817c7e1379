// Files of tuning results: their text, and that they are whole whoever writes them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "cpp_tests/tuning_samples.h"
#include "registration/tuning/json.h"
#include "registration/tuning/records_file.h"

namespace haloconv::tuning {
namespace {

using std::chrono::milliseconds;

RecordsByEnvironment samples() {
  return {{kHere, {{"fprop n1", {"halo", "tile 8x8, \"two\" groups", 0.125}}, {"wgrad n2", {}}}},
          {on_device("another"), {}}};
}

TEST(TuningRecords, ReadWhatTheyWrote) { EXPECT_EQ(parse_records(to_text(samples())), samples()); }

TEST(TuningRecords, AreWrittenForPeople) {
  EXPECT_EQ(to_text({{kHere, {{"fprop n1", {"halo", "a", 0.5}}}}}), R"({
  "environments": [
    {
      "cuda_driver": "13.0",
      "cuda_runtime": "13.0",
      "cudnn": "9.15.1",
      "device": "a chip",
      "haloconv": "0.1.0",
      "results": {
        "fprop n1": {
          "family": "halo",
          "ms": 0.5,
          "plan": "a"
        }
      },
      "torch": "2.11.0"
    }
  ],
  "haloconv_tuning_format": 1
}
)");
}

TEST(TuningRecords, CutAnywhereTheyAreCorrupt) {
  const std::string text = to_text(samples());
  for (size_t length = 0; length < text.size() - 1; ++length) {  // the last is a newline
    EXPECT_THROW(parse_records(text.substr(0, length)), std::runtime_error) << length;
  }
}

TEST(TuningRecords, OtherJsonIsCorrupt) {
  for (const char* text : {"[]", "{}", "1", R"({"haloconv_tuning_format": 1})",
                           R"({"haloconv_tuning_format": "1", "environments": []})",
                           R"({"haloconv_tuning_format": 1, "environments": {}})",
                           R"({"haloconv_tuning_format": 1, "environments": [{}]})"}) {
    EXPECT_THROW(parse_records(text), std::runtime_error) << text;
  }
}

TEST(TuningRecords, AnotherFormatIsSaidToBeOne) {
  try {
    parse_records(R"({"haloconv_tuning_format": 2, "all": "else"})");
    FAIL();
  } catch (const OtherFormat& error) {
    EXPECT_STREQ(error.what(), "its format is 2, but this library's is 1");
  }
}

TEST(TuningRecords, SayWhatDiffers) {
  EXPECT_TRUE(differences(kHere, kHere).empty());
  EXPECT_TRUE(differences(kHere, kVersions).empty());  // of which the device is not asked
  Environment other = on_device("another");
  other.torch = "2.10.0";
  EXPECT_EQ(differences(other, kHere),
            (std::vector<std::string>{"torch 2.10.0 instead of 2.11.0",
                                      "device another instead of a chip"}));
}

void add(RecordsByEnvironment& records, const std::string& problem) {
  records[kHere][problem] = {.family = "halo", .plan = "a", .ms = 1};
}

TEST(TuningFile, IsWrittenWholeOrNotAtAll) {
  const Folder folder;
  const auto file = folder / "tuning.json";
  EXPECT_TRUE(update_records(file, milliseconds(0), [](auto& all) { all = samples(); }));
  EXPECT_EQ(read_records(file), samples());
  const std::string text = text_of(file);
  EXPECT_THROW(update_records(file, milliseconds(0),
                              [](auto& all) {
                                all.clear();
                                throw std::logic_error("no");
                              }),
               std::logic_error);
  EXPECT_EQ(text_of(file), text);
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(each.path().filename());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"tuning.json", "tuning.json.lock"}));
}

TEST(TuningFile, StaysWhereNothingChanges) {
  const Folder folder;
  const auto file = folder / "tuning.json";
  update_records(file, milliseconds(0), [](auto& all) { all = samples(); });
  const std::string in_one_line = text_of(file) + "\n\n";
  write(file, in_one_line);
  update_records(file, milliseconds(0), [](auto&) {});
  EXPECT_EQ(text_of(file), in_one_line);
}

TEST(TuningFile, IsWrittenThoughThereIsNothingToSay) {
  const Folder folder;
  const auto file = folder / "tuning.json";
  update_records(file, milliseconds(0), [](auto&) {});
  EXPECT_EQ(read_records(file), RecordsByEnvironment());
}

TEST(TuningFile, ACorruptOneIsReplacedAndOneOfAnotherFormatIsNot) {
  const Folder folder;
  const auto file = folder / "tuning.json";
  write(file, "{ half of");
  update_records(file, milliseconds(0), [](auto& all) { add(all, "fprop n1"); });
  EXPECT_EQ(read_records(file).at(kHere).size(), 1);
  const std::string newer = R"({"haloconv_tuning_format": 2})";
  write(file, newer);
  EXPECT_THROW(update_records(file, milliseconds(0), [](auto& all) { add(all, "fprop n1"); }),
               OtherFormat);
  EXPECT_EQ(text_of(file), newer);
}

TEST(TuningFile, LinksAreFollowed) {
  const Folder folder;
  std::filesystem::create_symlink("real.json", folder / "link.json");
  update_records(folder / "link.json", milliseconds(0), [](auto& all) { all = samples(); });
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.json"));
  EXPECT_EQ(read_records(folder / "real.json"), samples());
}

// What cannot be written says so.
TEST(TuningFile, AFolderThatCannotBeWrittenIsAnError) {
  const Folder folder;
  const auto nothing = [](auto&) {};
  EXPECT_THROW(update_records(folder / "no" / "file", milliseconds(0), nothing), std::system_error);
  std::filesystem::create_directory(folder / "folder");
  EXPECT_THROW(update_records(folder / "folder", milliseconds(0), nothing), std::system_error);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  const bool is_root = ::geteuid() == 0;
  if (is_root) {  // which may write anywhere
    ASSERT_EQ(::seteuid(65534), 0);
  }
  try {
    update_records(folder / "file", milliseconds(0), nothing);
    ADD_FAILURE() << "was written";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::permission_denied);
  }
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
}

TEST(TuningFile, WhoMeetsALockWaitsNoLongerThanAsked) {
  const Folder folder;
  const auto file = folder / "tuning.json";
  update_records(file, milliseconds(0), [&](auto&) {
    EXPECT_FALSE(update_records(file, milliseconds(20), [](auto&) { ADD_FAILURE(); }));
  });
}

// Runs body() in another process, which ends with it.
template <class Body>
pid_t in_process(const Body& body) {
  const pid_t process = ::fork();
  if (process != 0) return process;
  int status = 1;
  try {
    body();
    status = 0;
  } catch (...) {
  }
  ::_exit(status);
}

TEST(TuningFileProcesses, LoseNothing) {
  constexpr int kProcesses = 6, kRecords = 20;
  const Folder folder;
  const auto file = folder / "tuning.json";
  std::vector<pid_t> processes;
  for (int process = 0; process < kProcesses; ++process) {
    processes.push_back(in_process([&] {
      for (int i = 0; i < kRecords; ++i) {
        const std::string problem = std::to_string(process) + ' ' + std::to_string(i);
        const auto add_it = [&](auto& all) { add(all, problem); };
        if (!update_records(file, milliseconds(60000), add_it)) ::_exit(2);
      }
    }));
  }
  for (const pid_t process : processes) {
    int status = -1;
    ::waitpid(process, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read_records(file).at(kHere).size(), kProcesses * kRecords);
}

// Wherever a process is killed, the file is whole and the next one may write.
TEST(TuningFileProcesses, MayBeKilledWhileTheyWrite) {
  const Folder folder;
  const auto file = folder / "tuning.json";
  update_records(file, milliseconds(0), [](auto& all) { add(all, "first"); });
  for (int attempt = 0; attempt < 20; ++attempt) {
    const pid_t process = in_process([&] {
      for (int i = 0;; ++i) {
        update_records(file, milliseconds(60000),
                       [&](auto& all) { add(all, std::to_string(i % 300)); });
      }
    });
    ::usleep(2000 + 700 * attempt);
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    EXPECT_NO_THROW(EXPECT_GE(read_records(file).at(kHere).size(), 1));
    EXPECT_TRUE(update_records(file, milliseconds(0), [&](auto& all) { add(all, "next"); }));
  }
}

}  // namespace
}  // namespace haloconv::tuning
