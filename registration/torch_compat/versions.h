// The torch that is loaded, beside the one that the library was built with.
#pragma once

#include <string>

namespace haloconv {

// How the two differ, and what to do; "" where they do not. torch's C++ interface changes with each
// minor release, and the CUDA runtime's with each major version.
std::string torch_mismatch();

}  // namespace haloconv
