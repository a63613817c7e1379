// The results of timing, and their form in a file.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace haloconv::tuning {

// What a timing depends on beside its problem. Versions are written as people do: "13.0".
struct Environment {
  std::string haloconv, torch, cuda_driver, cuda_runtime, cudnn;
  std::string device;  // "" if it does not matter

  auto operator<=>(const Environment&) const = default;
};

// What differs, each like "torch 2.10.0 instead of 2.11.0". Devices do not differ if one of the two
// has none.
std::vector<std::string> differences(const Environment& theirs, const Environment& ours);

// The fastest way to compute a problem. A plan is known by its text, not by its place in a list:
// another build may list others.
struct Record {
  std::string family, plan;
  double ms = 0;

  bool operator==(const Record&) const = default;
};

// By the problem's text, which says all on which a choice depends beside the environment.
using Records = std::map<std::string, Record, std::less<>>;
using RecordsByEnvironment = std::map<Environment, Records>;

// A file's text, in JSON.
std::string to_text(const RecordsByEnvironment& records);

// Thrown for a file of this kind in another format than this library writes. It must not be
// replaced, although it cannot be read.
class OtherFormat : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Raises OtherFormat, or std::runtime_error if the text is not one that to_text() writes.
RecordsByEnvironment parse_records(std::string_view text);

}  // namespace haloconv::tuning
