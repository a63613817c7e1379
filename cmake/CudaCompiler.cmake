# Whether the CUDA half is built where nobody says: if there is a CUDA compiler.
include(CheckLanguage)
check_language(CUDA)
if(HALOCONV_WHEEL AND NOT DEFINED HALOCONV_CUDA AND NOT CMAKE_CUDA_COMPILER)
  # Whoever installs a package reads no log: a wheel lacks its kernels only if that was asked for.
  message(FATAL_ERROR
    "haloconv: no CUDA compiler found. Set CUDACXX to an nvcc of torch's CUDA major version, or ask "
    "for a package without CUDA kernels: "
    "pip install --config-settings=cmake.define.HALOCONV_CUDA=OFF")
endif()
if(CMAKE_CUDA_COMPILER)
  set(haloconv_cuda_default ON)
else()
  set(haloconv_cuda_default OFF)
  message(STATUS "haloconv: no CUDA compiler found, building the CPU half alone (set CUDACXX to an "
                 "nvcc of torch's CUDA major version for the CUDA half)")
endif()
