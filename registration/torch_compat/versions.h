// The loaded torch, compared with the one that the library was built with, and its cuDNN.
#pragma once

#include <string>

namespace haloconv {

// How the two differ, and what to do; "" if they do not. torch's C++ interface changes with each
// minor release, and the CUDA runtime's with each major version.
std::string torch_mismatch();

// In their own numbers, such as 13020 for CUDA 13.2 and 91501 for cuDNN 9.15.1; 0 if there is
// none. Asking does not start CUDA.
long loaded_cuda();
long loaded_cudnn();

}  // namespace haloconv
