// What timing found, and its form in a file.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace haloconv::tuning {

// What a timing depends on beside its problem. Versions as people write them: "13.0".
struct Environment {
  std::string haloconv, torch, cuda_driver, cuda_runtime, cudnn;
  std::string device;  // "" where it does not matter

  auto operator<=>(const Environment&) const = default;
};

// What differs, each like "torch 2.10.0 instead of 2.11.0". Where one of them has no device,
// devices do not.
std::vector<std::string> differences(const Environment& theirs, const Environment& ours);

// The fastest way to compute a problem. A plan is known by its text, not by its place in a list:
// another build may list others.
struct Record {
  std::string family, plan;
  double ms = 0;

  bool operator==(const Record&) const = default;
};

// By the problem's text, which says all that a choice depends on beside the environment.
using Records = std::map<std::string, Record, std::less<>>;
using RecordsByEnvironment = std::map<Environment, Records>;

// A file's text, in JSON.
std::string to_text(const RecordsByEnvironment& records);

// A file of this kind, but of another format than this library writes: one that must not be
// replaced for being unreadable.
class OtherFormat : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Raises OtherFormat, or std::runtime_error where a text is not what to_text() writes.
RecordsByEnvironment parse_records(std::string_view text);

}  // namespace haloconv::tuning
