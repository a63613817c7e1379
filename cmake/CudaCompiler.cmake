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

# Says so where the compiler is too old, before CMake tries it.
function(haloconv_check_cuda_compiler)
  execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --version OUTPUT_VARIABLE said ERROR_QUIET)
  if(said MATCHES " release ([0-9.]+)," AND CMAKE_MATCH_1 VERSION_LESS 12.8)
    message(FATAL_ERROR
      "haloconv: ${CMAKE_CUDA_COMPILER} is of CUDA ${CMAKE_MATCH_1}, but the kernels need CUDA 12.8 or "
      "newer. Set CUDACXX to an nvcc of such a version, which may be newer than torch's CUDA, or leave "
      "the CUDA half out with HALOCONV_CUDA=OFF.")
  endif()
endfunction()
