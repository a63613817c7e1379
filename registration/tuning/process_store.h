// The process's own store of timed results.
#pragma once

#include "registration/tuning/store.h"

namespace haloconv::tuning {

// Reads and keeps the file that HALOCONV_TUNING_FILE names at the first call, with torch's
// warnings. Never destroyed: calls may come at exit.
Store& process_store();

}  // namespace haloconv::tuning
