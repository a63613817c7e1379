// The implementation that the process was told to use: see ForceImplementation in conv2d.h.
#pragma once

#include <optional>

#include "conv2d/choice.h"

namespace haloconv {

// None where none was forced.
std::optional<Implementation> forced_implementation();

}  // namespace haloconv
