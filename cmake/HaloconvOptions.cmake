# Build options, the language level, and whether the CUDA half is built.

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
set(HALOCONV_KERNELS "" CACHE FILEPATH
    "libhaloconv_kernels.so of another build, which is used instead of compiling the kernels")
option(HALOCONV_BINDING_ONLY
       "Install libhaloconv.so alone: for one more torch of a wheel, which has the rest" OFF)
if(HALOCONV_KERNELS)
  set(haloconv_cuda_default ON)  # its kernels are compiled: no CUDA compiler is needed
else()
  include(CudaCompiler)
endif()
option(HALOCONV_CUDA "Build the CUDA kernels" ${haloconv_cuda_default})
option(HALOCONV_WERROR "Treat warnings in the project's own C++ sources as errors" OFF)
# C++ sources then compile in about half of the time, but ccache would find nothing it knows.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(haloconv_precompile_default OFF)
else()
  set(haloconv_precompile_default ON)
endif()
option(HALOCONV_PRECOMPILE
       "Read the headers of torch and GoogleTest once for all sources, and some sources as one"
       ${haloconv_precompile_default})
option(HALOCONV_TESTS "Build the C++ tests (needs GoogleTest)" ${PROJECT_IS_TOP_LEVEL})

add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>)
if(HALOCONV_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

if(HALOCONV_CUDA)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)  # the kernels' own: op/CMakeLists.txt
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  # Machine code for data-centre chips; PTX of the oldest chip that CUDA 13 knows, for all others.
  set(HALOCONV_CUDA_ARCHITECTURES "75-virtual;80-real;90-real" CACHE STRING
      "CUDA architectures of the generic kernels")
  option(HALOCONV_CUDA_FAST_COMPILE
         "Compile most kernels in a fraction of the time, to slow code: where nothing runs them" OFF)
  if(HALOCONV_KERNELS)
    find_package(CUDAToolkit 12.8)
  else()
    haloconv_check_cuda_compiler()
    enable_language(CUDA)
    find_package(CUDAToolkit 12.8 REQUIRED)
  endif()
endif()
if(NOT HALOCONV_CUDA)
  message(STATUS "haloconv: without its CUDA half")
endif()
