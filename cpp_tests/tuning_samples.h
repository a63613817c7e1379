// Environments, records and folders for the tests of what tuning keeps.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "registration/tuning/records.h"

namespace haloconv::tuning {

inline const Environment kVersions = {.haloconv = "0.1.0",
                                      .torch = "2.11.0",
                                      .cuda_driver = "13.0",
                                      .cuda_runtime = "13.0",
                                      .cudnn = "9.15.1",
                                      .device = ""};

inline Environment on_device(const std::string& device) {
  Environment environment = kVersions;
  environment.device = device;
  return environment;
}

inline const Environment kHere = on_device("a chip");

// Exists as long as a test.
class Folder {
 public:
  Folder() {
    std::string name = ::testing::TempDir() + "haloconv-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::filesystem::path operator/(const char* name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

inline void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace haloconv::tuning
