#include "conv2d/device/patch_maps.h"

#include <stdexcept>

#include "conv2d/geometry/flat_pixels.h"
#include "cuda/tma.h"

namespace haloconv::sm90 {

namespace {

constexpr int32_t kGradOutputBytes = 128;  // of a pixel of a box

// One dimension of a tensor's pixels, and of a box.
struct PixelAxis {
  int64_t extent, distance;
  int32_t box, step = 1;
};

// `rounds`: the copy engine rounds float32 to TF32.
CUtensorMapDataType tensor_map_type(DataType type, bool rounds) {
  return type == DataType::kFloat32
             ? rounds ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32
         : type == DataType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                      : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

// Of axes from the innermost outward.
CUtensorMap make_map(const void* address, DataType type, const PixelAxis (&axes)[4],
                     bool rounds = false) {
  TensorView view;
  view.address = address;
  view.type = tensor_map_type(type, rounds);
  view.element_bytes = static_cast<int>(size_of(type));
  view.rank = 4;
  int32_t box[4], steps[4];
  for (int i = 0; i < 4; ++i) {
    view.extents[i] = axes[i].extent, view.strides[i] = axes[i].distance;
    box[i] = axes[i].box, steps[i] = axes[i].step;
  }
  const int64_t inner_bytes = axes[0].box * size_of(type);
  const CUtensorMapSwizzle swizzle = inner_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : inner_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                         : CU_TENSOR_MAP_SWIZZLE_32B;
  const auto map = make_tiled_map(view, box, swizzle, steps);
  if (!map) {
    throw std::runtime_error(
        "haloconv: the driver makes no tensor map of the input or of grad_output; their addresses "
        "must be multiples of 16 bytes");
  }
  return *map;
}

// Of boxes of so many channels.
CUtensorMap make_channels_map(const void* address, DataType type, int64_t channels,
                              int32_t box_channels, const PixelAxis& w, const PixelAxis& h,
                              const PixelAxis& n, bool images_innermost, bool rounds = false) {
  const PixelAxis of_channels = {channels, 1, box_channels};
  if (images_innermost) return make_map(address, type, {of_channels, n, w, h}, rounds);
  return make_map(address, type, {of_channels, w, h, n}, rounds);
}

// Of grad_output with its rows innermost, by rows of a box.
CUtensorMap make_rows_map(const void* address, const Conv2dProblem& p, int32_t box_rows) {
  const auto side = kGradOutputBytes / static_cast<int32_t>(size_of(p.type));
  return make_map(address, p.type,
                  {{p.q(), 1, side},
                   {p.k, p.output.c, side},
                   {p.p(), p.output.h, box_rows},
                   {p.n, p.output.n, 1}});
}

}  // namespace

PatchMaps make_patch_maps(const Conv2dProblem& problem, const PixelPatches& patches, bool flat,
                          const InputBox& box, const void* grad_output, const void* input) {
  const Conv2dProblem& p = problem;
  const auto of_grad_output = [&](const PixelAxis& w, const PixelAxis& h, const PixelAxis& n) {
    return make_channels_map(grad_output, p.type, p.k,
                             kGradOutputBytes / static_cast<int32_t>(size_of(p.type)), w, h, n,
                             patches.images_innermost);
  };
  const auto of_input = [&](const PixelAxis& w, const PixelAxis& h, const PixelAxis& n) {
    return make_channels_map(input, p.type, p.c, box.channels, w, h, n, patches.images_innermost,
                             true);
  };
  if (flat) {
    const auto row = [&](const Strides& strides) {
      return PixelAxis{p.n * p.h * p.w, even_distance(strides, p.n, p.h, p.w).value(),
                       patches.columns};
    };
    const PixelAxis one = {1, 0, 1};
    return {of_grad_output(row(p.output), one, one), of_input(row(p.input), one, one)};
  }
  const bool has_rows = p.output.c != 1;
  return {has_rows ? make_rows_map(grad_output, p, patches.rows)
                   : of_grad_output({p.q(), p.output.w, patches.columns},
                                    {p.p(), p.output.h, patches.rows},
                                    {p.n, p.output.n, patches.images}),
          of_input({p.w, p.input.w, box.columns, patches.stride_w},
                   {p.h, p.input.h, box.rows, patches.stride_h}, {p.n, p.input.n, patches.images})};
}

}  // namespace haloconv::sm90
