// A file of records that several processes read and write.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include "registration/tuning/records.h"

namespace haloconv::tuning {

// What the file holds. Raises std::system_error where it cannot be read or is not there,
// OtherFormat, or another std::runtime_error where it is corrupt.
RecordsByEnvironment read_records(const std::filesystem::path& file);

// Changes what the file holds by update(), whole or not at all; where that changes nothing the file
// stays. One that is not there or is corrupt holds nothing, and is written in any case. No other
// process or thread writes meanwhile: false where one still did after `patience`. Raises
// OtherFormat, std::system_error, and what a Draft does.
//
// The lock is one on FILE.lock, which stays: FILE itself is another file after each update.
bool update_records(const std::filesystem::path& file, std::chrono::milliseconds patience,
                    const std::function<void(RecordsByEnvironment&)>& update);

}  // namespace haloconv::tuning
