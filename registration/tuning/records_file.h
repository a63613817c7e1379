// A file of records that several processes read and write.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include "registration/tuning/records.h"

namespace haloconv::tuning {

// What the file holds. Raises std::system_error if it does not exist or cannot be read,
// OtherFormat, or another std::runtime_error if it is corrupt.
RecordsByEnvironment read_records(const std::filesystem::path& file);

// Changes what the file holds by update(), whole or not at all; if update() changes nothing, the
// file stays. A file that does not exist or is corrupt counts as empty, and is written in any case.
// No other process or thread writes meanwhile; false if one still did after `patience`. Raises
// OtherFormat, std::system_error, and what a Draft raises.
//
// The lock is on FILE.lock, which stays, because FILE itself is another file after each update.
bool update_records(const std::filesystem::path& file, std::chrono::milliseconds patience,
                    const std::function<void(RecordsByEnvironment&)>& update);

}  // namespace haloconv::tuning
