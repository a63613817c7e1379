# Finds LibTorch and defines the imported targets haloconv::torch and, where the CUDA half is
# wanted and torch has it, haloconv::torch_cuda.
#
# torch's own TorchConfig.cmake is not used: it rewrites CMAKE_CUDA_FLAGS for the whole project,
# defines macros on every file, and fails without a CUDA toolkit even for a CPU-only build. This
# module is installed beside haloconv-config.cmake, so that a user's project finds the same torch.
#
# Sets HALOCONV_TORCH_MINOR to torch's minor version, such as 2.11, by which its C++ interface goes,
# and HALOCONV_TORCH_CUDA_MAJOR to the major version of the CUDA runtime that torch loads.
#
# Looks below Torch_DIR, Torch_ROOT and each entry of CMAKE_PREFIX_PATH, variables of CMake or of the
# environment: torch.utils.cmake_prefix_path (…/torch/share/cmake) and the folder of an unpacked
# libtorch both work.

set(_hints "")
string(REPLACE ":" ";" _environment "$ENV{CMAKE_PREFIX_PATH}")
foreach(_prefix IN LISTS CMAKE_PREFIX_PATH _environment
        ITEMS "${Torch_DIR}" "${Torch_ROOT}" "$ENV{Torch_DIR}" "$ENV{Torch_ROOT}")
  if(_prefix)
    list(APPEND _hints "${_prefix}" "${_prefix}/../.." "${_prefix}/../../..")
  endif()
endforeach()

find_path(HALOCONV_TORCH_INCLUDE_DIR torch/headeronly/version.h
          HINTS ${_hints} PATH_SUFFIXES include)
foreach(_lib IN ITEMS torch torch_cpu c10 torch_cuda c10_cuda)
  find_library(HALOCONV_LIB_${_lib} ${_lib} HINTS ${_hints} PATH_SUFFIXES lib)
  mark_as_advanced(HALOCONV_LIB_${_lib})
endforeach()
mark_as_advanced(HALOCONV_TORCH_INCLUDE_DIR)

if(HALOCONV_TORCH_INCLUDE_DIR)
  file(STRINGS "${HALOCONV_TORCH_INCLUDE_DIR}/torch/headeronly/version.h" _lines
       REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" _numbers "${_lines}")
  list(JOIN _numbers "." HaloconvTorch_VERSION)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" HALOCONV_TORCH_MINOR "${HaloconvTorch_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  HaloconvTorch
  REQUIRED_VARS HALOCONV_TORCH_INCLUDE_DIR HALOCONV_LIB_torch HALOCONV_LIB_torch_cpu HALOCONV_LIB_c10
  VERSION_VAR HaloconvTorch_VERSION
  HANDLE_VERSION_RANGE
  REASON_FAILURE_MESSAGE
    "set CMAKE_PREFIX_PATH to what torch.utils.cmake_prefix_path says in Python")

function(_haloconv_import name library)
  if(NOT TARGET ${name})
    add_library(${name} SHARED IMPORTED)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${library}")
    set_property(TARGET ${name} PROPERTY INTERFACE_LINK_LIBRARIES ${ARGN})
    target_include_directories(
      ${name} SYSTEM INTERFACE "${HALOCONV_TORCH_INCLUDE_DIR}"
                               "${HALOCONV_TORCH_INCLUDE_DIR}/torch/csrc/api/include")
  endif()
endfunction()

if(HaloconvTorch_FOUND)
  get_filename_component(HALOCONV_TORCH_LIB_DIR "${HALOCONV_LIB_c10}" DIRECTORY)
  _haloconv_import(haloconv::c10 "${HALOCONV_LIB_c10}")
  _haloconv_import(haloconv::torch_cpu "${HALOCONV_LIB_torch_cpu}" haloconv::c10)
  _haloconv_import(haloconv::torch "${HALOCONV_LIB_torch}" haloconv::torch_cpu)
  if(HALOCONV_LIB_torch_cuda AND HALOCONV_LIB_c10_cuda)
    _haloconv_import(haloconv::c10_cuda "${HALOCONV_LIB_c10_cuda}" haloconv::c10)
    _haloconv_import(haloconv::torch_cuda "${HALOCONV_LIB_torch_cuda}" haloconv::torch
                     haloconv::c10_cuda)
    execute_process(COMMAND "${CMAKE_READELF}" -d "${HALOCONV_LIB_torch_cuda}"
                    OUTPUT_VARIABLE _needed ERROR_QUIET)
    if(_needed MATCHES "\\[libcudart[^]]*\\.so\\.([0-9]+)")
      set(HALOCONV_TORCH_CUDA_MAJOR "${CMAKE_MATCH_1}")
    endif()
  endif()
endif()
