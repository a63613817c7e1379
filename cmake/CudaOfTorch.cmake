# The target haloconv_cuda_of_torch: the headers of the CUDA that torch was built with, for what is
# compiled against torch. That calls no CUDA runtime but through torch, and the kernels have a runtime of
# their own, of the toolkit that compiled them, whose major version may be another.
#
# PyPI's packages of CUDA have the headers, one folder for all of CUDA 13 and one for each library of
# CUDA 12; so has a toolkit of the same major version.
#
# Sets haloconv_cuda_major, torch's major version of CUDA.
set(haloconv_cuda_major "${HALOCONV_TORCH_CUDA_MAJOR}")
if(NOT haloconv_cuda_major)  # torch does not say
  set(haloconv_cuda_major "${CUDAToolkit_VERSION_MAJOR}")
endif()
if(haloconv_cuda_major LESS 12)
  message(FATAL_ERROR
    "haloconv: torch was built with CUDA ${haloconv_cuda_major}, but the CUDA half needs a torch of CUDA "
    "12 or 13. Install such a torch, or leave the CUDA half out with HALOCONV_CUDA=OFF.")
endif()
file(REAL_PATH "${HALOCONV_TORCH_LIB_DIR}" _torch_lib)
cmake_path(SET _packages NORMALIZE "${_torch_lib}/../../nvidia")
if(haloconv_cuda_major EQUAL 12)
  set(_folders cuda_runtime cublas cusparse cusolver)
else()
  set(_folders "cu${haloconv_cuda_major}")
endif()
list(TRANSFORM _folders PREPEND "${_packages}/")
list(TRANSFORM _folders APPEND "/include" OUTPUT_VARIABLE _header_folders)
if(haloconv_cuda_major EQUAL "${CUDAToolkit_VERSION_MAJOR}")
  list(APPEND _header_folders ${CUDAToolkit_INCLUDE_DIRS})
endif()

add_library(haloconv_cuda_of_torch INTERFACE)
set(_missing "")
foreach(_header IN ITEMS cuda_runtime_api.h cublas_v2.h cusparse.h cusolverDn.h)
  unset(_folder)
  find_path(_folder "${_header}" NO_CACHE NO_DEFAULT_PATH HINTS ${_header_folders})
  if(_folder)
    target_include_directories(haloconv_cuda_of_torch SYSTEM INTERFACE "${_folder}")
  else()
    list(APPEND _missing "${_header}")
  endif()
endforeach()
# The headers in crt/ come with the compiler, not with the runtime: what __host__ and the like stand
# for. Any toolkit's serve.
unset(_folder)
find_path(_folder crt/host_defines.h NO_CACHE NO_DEFAULT_PATH
          HINTS ${_header_folders} ${CUDAToolkit_INCLUDE_DIRS})
if(_folder)
  set(_link "${PROJECT_BINARY_DIR}/headers_of_compiler")
  file(MAKE_DIRECTORY "${_link}")
  file(CREATE_LINK "${_folder}/crt" "${_link}/crt" SYMBOLIC)
  target_include_directories(haloconv_cuda_of_torch SYSTEM INTERFACE "${_link}")
else()
  list(APPEND _missing crt/host_defines.h)
endif()

if(_missing)
  list(JOIN _missing ", " _missing)
  message(FATAL_ERROR
    "haloconv: torch was built with CUDA ${haloconv_cuda_major}, of which ${_missing} was not found, "
    "neither in ${_packages}, where pip installs what torch depends on, nor in the toolkit, CUDA "
    "${CUDAToolkit_VERSION} (${CUDAToolkit_TARGET_DIR}). Set CUDACXX to an nvcc of CUDA "
    "${haloconv_cuda_major}, or leave the CUDA half out with HALOCONV_CUDA=OFF.")
endif()

if(HALOCONV_KERNELS)
  set(_kernels "those of ${HALOCONV_KERNELS}")
else()
  set(_kernels "compiled by CUDA ${CUDAToolkit_VERSION}")
  if(CUDAToolkit_VERSION_MAJOR GREATER haloconv_cuda_major)
    string(APPEND _kernels ", and need a driver for CUDA ${CUDAToolkit_VERSION_MAJOR}")
  endif()
endif()
message(STATUS "haloconv: with its CUDA half, for torch ${HALOCONV_TORCH_MINOR} of CUDA "
               "${haloconv_cuda_major}; the kernels are ${_kernels}")
