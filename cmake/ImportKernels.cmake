# haloconv_kernels out of another build: libhaloconv.so alone is built.
cmake_path(GET HALOCONV_KERNELS FILENAME _kernels_file)
add_library(haloconv_kernels SHARED IMPORTED GLOBAL)
set_target_properties(haloconv_kernels PROPERTIES
  IMPORTED_LOCATION "${HALOCONV_KERNELS}"
  IMPORTED_SONAME "${_kernels_file}"
  INTERFACE_INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}/op"
  INTERFACE_COMPILE_DEFINITIONS "$<$<BOOL:${HALOCONV_CUDA}>:HALOCONV_WITH_CUDA>")
