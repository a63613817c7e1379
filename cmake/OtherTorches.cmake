# libhaloconv.so for further torch versions, for one wheel: the environment's HALOCONV_TORCHES is a list
# of the folders of torch packages (…/site-packages/torch). The kernels are this build's.
#
# It is no option of CMake's, whose cache would keep what an earlier build was for: the wheel's
# metadata, which says for which torch it is, comes of the environment too (wheel_dependencies.py).
include(ExternalProject)
if(HALOCONV_KERNELS)
  set(_kernels "${HALOCONV_KERNELS}")
  set(_depends "")
else()
  set(_kernels "${PROJECT_BINARY_DIR}/op/libhaloconv_kernels.so.${PROJECT_VERSION_MAJOR}")
  set(_depends DEPENDS haloconv_kernels)
endif()
set(_torches "$ENV{HALOCONV_TORCHES}")
foreach(_torch IN LISTS _torches)
  if(NOT EXISTS "${_torch}/version.py")
    message(FATAL_ERROR "haloconv: HALOCONV_TORCHES names ${_torch}, which is no folder of a torch "
                        "package: it has no version.py")
  endif()
  string(MD5 _name "${_torch}")
  set(_folder "${PROJECT_BINARY_DIR}/bindings/${_name}")
  ExternalProject_Add(
    torch_${_name}
    SOURCE_DIR "${PROJECT_SOURCE_DIR}"
    BINARY_DIR "${_folder}/build"
    INSTALL_DIR "${_folder}/install"
    CMAKE_ARGS
      "-DCMAKE_INSTALL_PREFIX=<INSTALL_DIR>" -DCMAKE_INSTALL_LIBDIR=lib
      "-DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}"
      "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
      "-DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS}"
      "-DCMAKE_CXX_FLAGS_RELEASE=${CMAKE_CXX_FLAGS_RELEASE}"
      "-DCMAKE_PREFIX_PATH=${_torch}/share/cmake"
      "-DCUDAToolkit_ROOT=${CUDAToolkit_TARGET_DIR}"
      "-DHALOCONV_KERNELS=${_kernels}" -DHALOCONV_BINDING_ONLY=ON
      -DHALOCONV_CUDA=${HALOCONV_CUDA} -DHALOCONV_PRECOMPILE=${HALOCONV_PRECOMPILE}
      -DHALOCONV_WERROR=${HALOCONV_WERROR} -DHALOCONV_TESTS=OFF -DHALOCONV_WHEEL=ON
    ${_depends}
    BUILD_ALWAYS ON
    USES_TERMINAL_CONFIGURE ON  # one at a time, each with all cores
    USES_TERMINAL_BUILD ON)
  install(DIRECTORY "${_folder}/install/lib" DESTINATION "." USE_SOURCE_PERMISSIONS)
endforeach()
