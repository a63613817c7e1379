// A driver for CUDA 12.0 without devices, as far as CUDA's runtime asks one that it finds too old:
// linked as libcuda.so.1, it stands for the system's.
#include <cuda.h>

#include <cstring>

#undef cuGetProcAddress

extern "C" {

CUresult CUDAAPI cuDriverGetVersion(int* version) {
  *version = 12'000;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuInit(unsigned) { return CUDA_ERROR_NO_DEVICE; }

CUresult CUDAAPI cuGetExportTable(const void**, const CUuuid*) { return CUDA_ERROR_NOT_FOUND; }

CUresult CUDAAPI cuGetProcAddress_v2(const char* name, void** function, int, cuuint64_t,
                                     CUdriverProcAddressQueryResult* found) {
  const auto is = [&](const char* other) { return std::strcmp(name, other) == 0; };
  *function = is("cuDriverGetVersion") ? reinterpret_cast<void*>(&cuDriverGetVersion)
              : is("cuInit")           ? reinterpret_cast<void*>(&cuInit)
              : is("cuGetProcAddress") ? reinterpret_cast<void*>(&cuGetProcAddress_v2)
                                       : nullptr;
  if (found != nullptr) {
    *found =
        *function == nullptr ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
  }
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

}  // extern "C"
