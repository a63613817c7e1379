# Build options, the language level, and whether the CUDA half is built.

include(CheckLanguage)
include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

option(HALOCONV_WHEEL "Install for a Python wheel, which pip unpacks beside torch" OFF)
check_language(CUDA)
if(HALOCONV_WHEEL AND NOT DEFINED HALOCONV_CUDA AND NOT CMAKE_CUDA_COMPILER)
  # Whoever installs a package reads no log: a wheel lacks its kernels only if that was asked for.
  message(FATAL_ERROR
    "haloconv: no CUDA compiler found. Set CUDACXX to an nvcc of CUDA 13, or ask for a package "
    "without CUDA kernels: pip install --config-settings=cmake.define.HALOCONV_CUDA=OFF")
endif()
if(CMAKE_CUDA_COMPILER)
  set(haloconv_cuda_default ON)
else()
  set(haloconv_cuda_default OFF)
  message(STATUS "haloconv: no CUDA compiler found, building the CPU half alone "
                 "(set CUDACXX to an nvcc of CUDA 13 for the CUDA half)")
endif()
option(HALOCONV_CUDA "Build the CUDA kernels" ${haloconv_cuda_default})
option(HALOCONV_WERROR "Treat warnings in the project's own C++ sources as errors" OFF)
option(HALOCONV_TESTS "Build the C++ tests (needs GoogleTest)" ${PROJECT_IS_TOP_LEVEL})

add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>)
if(HALOCONV_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

if(HALOCONV_CUDA)
  # torch links the shared CUDA runtime; a static one beside it would be a second runtime.
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  # Machine code for data-centre chips; PTX of the oldest chip that CUDA 13 knows, for all others.
  set(HALOCONV_CUDA_ARCHITECTURES "75-virtual;80-real;90-real" CACHE STRING
      "CUDA architectures of the generic kernels")
  enable_language(CUDA)
  find_package(CUDAToolkit 13 REQUIRED)
endif()
message(STATUS "haloconv: CUDA half ${HALOCONV_CUDA}")
