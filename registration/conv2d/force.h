// The implementation that the process was told to use: see ForceImplementation in conv2d.h.
#pragma once

#include <string_view>

namespace haloconv {

// A group of families, a family or ATen by its name, as forceable_names() has it; "" where none was
// forced.
std::string_view forced_implementation();

}  // namespace haloconv
