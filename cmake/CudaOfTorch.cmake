# Refuses a CUDA toolkit of another major version than torch's: two CUDA runtimes would be loaded.
if(HALOCONV_CUDA AND HALOCONV_TORCH_CUDA_MAJOR
   AND NOT HALOCONV_TORCH_CUDA_MAJOR EQUAL CUDAToolkit_VERSION_MAJOR)
  message(FATAL_ERROR
    "haloconv: torch was built with CUDA ${HALOCONV_TORCH_CUDA_MAJOR}, but the toolkit is CUDA "
    "${CUDAToolkit_VERSION} (${CMAKE_CUDA_COMPILER}). Set CUDACXX to an nvcc of CUDA "
    "${HALOCONV_TORCH_CUDA_MAJOR}, install a torch of CUDA ${CUDAToolkit_VERSION_MAJOR}, or leave "
    "the CUDA half out with HALOCONV_CUDA=OFF.")
endif()
