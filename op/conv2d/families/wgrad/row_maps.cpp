#include "conv2d/families/wgrad/row_maps.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::wgrad {

namespace {

constexpr uintptr_t kAlignment = 16;  // of addresses and strides, in bytes

// The driver's function, or null: it is not linked, so that the library loads where there is no
// driver.
PFN_cuTensorMapEncodeTiled_v12000 find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check_cuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                              cudaEnableDefault, &found),
             "cudaGetDriverEntryPointByVersion");
  if (found != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

// The driver's functions need a context, which a new thread has from the runtime's first call
// alone.
void bind_context() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
}

// Of rows `row`, row + row_maps and so on; returns whether the driver made it.
bool make_map(const Arguments& a, int32_t row, int32_t& column_shift, CUtensorMap& map) {
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = find_encode();
  if (encode == nullptr) return false;
  const auto first = reinterpret_cast<uintptr_t>(static_cast<const float*>(a.grad_output) +
                                                 row * int64_t{a.output_p});
  column_shift = static_cast<int32_t>(first % kAlignment / sizeof(float));
  const cuuint64_t channels = static_cast<cuuint64_t>(a.groups) * a.rows;
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(a.q) + column_shift,
                                static_cast<cuuint64_t>(ceil_div(a.p - row, a.row_maps)), channels,
                                static_cast<cuuint64_t>(a.images)};
  // Of a single row, channel or image the stride may be any: it is not used.
  const auto bytes = [](cuuint64_t extent, int64_t stride) {
    return extent == 1 ? kAlignment : static_cast<cuuint64_t>(stride) * sizeof(float);
  };
  const cuuint64_t strides[] = {bytes(extents[1], int64_t{a.output_p} * a.row_maps),
                                bytes(channels, a.output_k), bytes(extents[3], a.output_n)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(a.box_columns), 1,
                            static_cast<cuuint32_t>(a.tile_rows), 1};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  return encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4,
                reinterpret_cast<void*>(first - first % kAlignment), extents, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE,
                a.box_columns == 32 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

std::optional<RowMaps> make_row_maps(Arguments& args) {
  bind_context();
  RowMaps maps{};
  for (int32_t row = 0; row < args.row_maps; ++row) {
    if (!make_map(args, row, args.column_shift[row], maps.of_row[row])) return std::nullopt;
  }
  return maps;
}

}  // namespace haloconv::wgrad
