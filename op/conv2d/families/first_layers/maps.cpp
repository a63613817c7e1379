#include "conv2d/families/first_layers/maps.h"

#include <stdexcept>
#include <string>

namespace haloconv::sm90::first_layers {

CUtensorMap map_of_view(const TensorView& view, const int32_t* box, CUtensorMapSwizzle swizzle,
                        const char* of) {
  if (const auto map = make_tiled_map(view, box, swizzle)) return *map;
  throw std::runtime_error(std::string("haloconv: no tensor map describes the ") + of +
                           ": its address was expected to be a multiple of 16 bytes");
}

CUtensorMap input_rows_map(const Conv2dProblem& problem, int32_t eights, int32_t rows,
                           const void* input) {
  const int64_t elements = 8 / size_of(problem.type);  // of 8 bytes
  TensorView view;
  view.address = input;
  view.type = CU_TENSOR_MAP_DATA_TYPE_INT64;
  view.element_bytes = 8;
  view.rank = 3;
  view.extents[0] = problem.w * problem.c / elements, view.strides[0] = 1;
  view.extents[1] = problem.h, view.strides[1] = problem.input.h / elements;
  view.extents[2] = problem.n, view.strides[2] = problem.input.n / elements;
  const int32_t box[] = {eights, rows, 1};
  return map_of_view(view, box, CU_TENSOR_MAP_SWIZZLE_NONE, "input");
}

}  // namespace haloconv::sm90::first_layers
