// The list of kernel families, in the order in which they are asked.
#pragma once

#include <span>

#include "conv2d/family.h"

namespace haloconv {

std::span<const Family* const> families();

}  // namespace haloconv
