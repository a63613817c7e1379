#include "cuda/tma.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "cuda/check.h"

namespace haloconv {

namespace {

constexpr cuuint64_t kAlignment = 16;  // of addresses and strides, in bytes

// A function of the driver, or null: the driver is not linked, so that the library loads where
// there is none.
template <class Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check_cuda(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found),
             "cudaGetDriverEntryPointByVersion");
  return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(function) : nullptr;
}

// The driver's functions need a context, which a new thread has only once it called the runtime for
// a device. Which one it is makes no difference to a map.
void bind_context() {
  static const auto get_current = driver_function<PFN_cuCtxGetCurrent_v4000>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  const bool is_known = get_current != nullptr && get_current(&context) == CUDA_SUCCESS;
  if (is_known && context != nullptr) return;
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
}

// Extents and strides as the driver takes them.
struct Layout {
  cuuint64_t extents[5];
  cuuint64_t strides[4];  // in bytes, of all dimensions but the innermost

  explicit Layout(const TensorView& view) {
    for (int i = 0; i < view.rank; ++i) {
      extents[i] = static_cast<cuuint64_t>(view.extents[i]);
      if (i == 0) continue;
      // The stride of a dimension of one element is never used and may be anything.
      strides[i - 1] = view.extents[i] == 1 ? kAlignment
                                            : static_cast<cuuint64_t>(view.strides[i]) *
                                                  static_cast<cuuint64_t>(view.element_bytes);
    }
  }
};

}  // namespace

std::optional<CUtensorMap> make_tiled_map(const TensorView& view, const int32_t* box,
                                          CUtensorMapSwizzle swizzle, const int32_t* steps) {
  static const auto encode =
      driver_function<PFN_cuTensorMapEncodeTiled_v12000>("cuTensorMapEncodeTiled");
  if (encode == nullptr) return std::nullopt;
  bind_context();
  const Layout layout(view);
  // The driver counts the elements that a box spans, those between the copied ones included.
  cuuint32_t spans[5], element_steps[5];
  for (int i = 0; i < view.rank; ++i) {
    const int32_t step = steps == nullptr ? 1 : steps[i];
    element_steps[i] = static_cast<cuuint32_t>(step);
    spans[i] = static_cast<cuuint32_t>((box[i] - 1) * step + 1);
  }
  CUtensorMap map;
  const CUresult made =
      encode(&map, view.type, static_cast<cuuint32_t>(view.rank), const_cast<void*>(view.address),
             layout.extents, layout.strides, spans, element_steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             swizzle, view.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (made != CUDA_SUCCESS) return std::nullopt;
  return map;
}

std::optional<CUtensorMap> make_im2col_map(const TensorView& view, const PixelColumn& column,
                                           CUtensorMapSwizzle swizzle) {
  static const auto encode =
      driver_function<PFN_cuTensorMapEncodeIm2col_v12000>("cuTensorMapEncodeIm2col");
  if (encode == nullptr) return std::nullopt;
  bind_context();
  const Layout layout(view);
  const int lower[] = {column.first_w, column.first_h};
  const int upper[] = {static_cast<int>(upper_corner(column.first_w, column.count_w, column.step_w,
                                                     view.extents[1])),
                       static_cast<int>(upper_corner(column.first_h, column.count_h, column.step_h,
                                                     view.extents[2]))};
  const cuuint32_t steps[] = {1, static_cast<cuuint32_t>(column.step_w),
                              static_cast<cuuint32_t>(column.step_h), 1};
  CUtensorMap map;
  const CUresult made =
      encode(&map, view.type, 4, const_cast<void*>(view.address), layout.extents, layout.strides,
             lower, upper, static_cast<cuuint32_t>(column.channels),
             static_cast<cuuint32_t>(column.pixels), steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
             view.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (made != CUDA_SUCCESS) return std::nullopt;
  return map;
}

}  // namespace haloconv
