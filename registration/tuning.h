// What the library timed, kept from one process to the next.
//
// With torch.backends.cudnn.benchmark the ways to compute a problem are timed on the GPU at its
// first call, and the fastest runs from then on, as long as the process lives. Such results can be
// saved and loaded:
//
//   haloconv::tuning::load("tuning.json");
//   ... torch's at::globalContext().setBenchmarkCuDNN(true), and the program
//   haloconv::tuning::save("tuning.json");
//
// or with no change to the program, from Python too: where the environment variable
// HALOCONV_TUNING_FILE names a file when the library first needs a result, it is loaded if it is
// there, and new results are written to it, within a second or at the end of the process.
//
// A file says in JSON for which versions of haloconv, torch, CUDA's driver and runtime and cuDNN,
// and for which kind of device, each result is. It may hold results for several; those for others
// than this process's are ignored, with a warning where there are no more, and so is a corrupt
// file, which the next save replaces. Files are written whole or not at all, and any number of
// processes may use one at once: each adds its results to what the file then holds. FILE.lock
// beside it is theirs.
#pragma once

#include <string>

#include "conv2d.h"

namespace haloconv::tuning {

// Adds all results of this process to the file, those that it loaded too; what was timed here
// replaces what the file says of the same problem. Raises c10::Error where that cannot be written
// or is of another format than this version's.
HALOCONV_API void save(const std::string& file);

// Adds the file's results for problems that have no result yet: what was timed or loaded before
// stays. Raises c10::Error where the file cannot be read.
HALOCONV_API void load(const std::string& file);

// Forgets all results and choices: with benchmark on, what runs next is timed anew. No file
// changes.
HALOCONV_API void clear();

}  // namespace haloconv::tuning
