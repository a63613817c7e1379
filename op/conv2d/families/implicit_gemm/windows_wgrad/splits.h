// How a planner that tries several numbers of splits or stages sets them alone.
#pragma once

#include <cstdint>

#include "conv2d/families/implicit_gemm/windows_wgrad/arguments.h"

namespace haloconv::windows_wgrad {

// So many splits of the rows, or as many as there are rows.
void set_splits(int64_t splits, const Tile& tile, Arguments& args);
// False: the rings of so many stages would be larger than any chip has room for.
bool set_stages(int stages, Arguments& args);

}  // namespace haloconv::windows_wgrad
