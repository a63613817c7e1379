# libhaloconv.so for further torch versions, for one wheel: HALOCONV_TORCHES is a list of the folders
# of torch packages (…/site-packages/torch). The kernels are this build's.
include(ExternalProject)
set(_bindings "${PROJECT_BINARY_DIR}/bindings")
foreach(_torch IN LISTS HALOCONV_TORCHES)
  string(MD5 _name "${_torch}")
  ExternalProject_Add(
    torch_${_name}
    SOURCE_DIR "${PROJECT_SOURCE_DIR}"
    BINARY_DIR "${_bindings}/${_name}"
    INSTALL_DIR "${_bindings}/prefix"
    CMAKE_ARGS
      "-DCMAKE_INSTALL_PREFIX=<INSTALL_DIR>" -DCMAKE_INSTALL_LIBDIR=lib
      "-DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}"
      "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
      "-DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS}"
      "-DCMAKE_PREFIX_PATH=${_torch}/share/cmake"
      "-DCUDAToolkit_ROOT=${CUDAToolkit_TARGET_DIR}"
      "-DHALOCONV_KERNELS=${PROJECT_BINARY_DIR}/op/libhaloconv_kernels.so.${PROJECT_VERSION_MAJOR}"
      -DHALOCONV_CUDA=${HALOCONV_CUDA} -DHALOCONV_PRECOMPILE=${HALOCONV_PRECOMPILE}
      -DHALOCONV_WERROR=${HALOCONV_WERROR} -DHALOCONV_TESTS=OFF -DHALOCONV_WHEEL=ON
    DEPENDS haloconv_kernels
    BUILD_ALWAYS ON
    USES_TERMINAL_CONFIGURE ON  # one at a time, each with all cores
    USES_TERMINAL_BUILD ON)
endforeach()
install(DIRECTORY "${_bindings}/prefix/lib" DESTINATION "." USE_SOURCE_PERMISSIONS)
