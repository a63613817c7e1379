// Timed choices, kept from one process to the next.
//
// With torch.backends.cudnn.benchmark, the first call of a problem times the candidates on the GPU,
// and the fastest runs from then on, as long as the process lives. These results can be saved and
// loaded:
//
//   haloconv::tuning::load("tuning.json");
//   ... torch's at::globalContext().setBenchmarkCuDNN(true), and the program
//   haloconv::tuning::save("tuning.json");
//
// The environment variable HALOCONV_TUNING_FILE does the same without a change to the program, also
// from Python: if it names a file when the library first needs a result, the file is loaded if it
// exists, and new results are written to it, within a second or at the end of the process.
//
// The file is JSON. It says for which versions of haloconv, torch, CUDA's driver and runtime and
// cuDNN, and for which kind of device, each result is, and may hold results for several. Those for
// others than this process's are ignored, with a warning if there are none but these. A corrupt
// file is ignored too, and the next save replaces it. Files are written whole or not at all, and
// any number of processes may use one at once: each adds its results to what the file then holds.
// They lock FILE.lock beside it.
#pragma once

#include <string>

#include "conv2d.h"

namespace haloconv::tuning {

// Adds all results of this process to the file, also those that it loaded. What was timed here
// replaces what the file says of the same problem. Raises c10::Error if the file cannot be written
// or has another format than this version's.
HALOCONV_API void save(const std::string& file);

// Adds the file's results for problems that have no result yet: what was timed or loaded before
// stays. Raises c10::Error if the file cannot be read.
HALOCONV_API void load(const std::string& file);

// Forgets all results and choices: with benchmark on, what runs next is timed again. No file
// changes.
HALOCONV_API void clear();

}  // namespace haloconv::tuning
