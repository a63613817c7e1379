#include "conv2d/device/element.cuh"
#include "conv2d/families/few_channels/add_fringe.h"
#include "cuda/check.h"

namespace haloconv::few_channels {

namespace {

constexpr int kAddThreads = 128;

// Grid: rows of all images.
template <class T>
__global__ void __launch_bounds__(kAddThreads)
    add_fringe_kernel(const __grid_constant__ Arguments args) {
  const int32_t image = static_cast<int32_t>(blockIdx.x) / args.height;
  const int32_t row = static_cast<int32_t>(blockIdx.x) - image * args.height;
  const int32_t columns = args.fringe_columns();
  const float* const left = args.fringe + args.fringe_row(0, image, row);
  const float* const right = args.fringe + args.fringe_row(1, image, row);
  T* const to =
      static_cast<T*>(args.destination) + image * args.destination_n + row * args.destination_h;
  for (int32_t i = threadIdx.x; i < (args.bands - 1) * args.rows * columns; i += kAddThreads) {
    const int32_t line = args.fringe_div.quotient(i);
    const int32_t boundary = line / args.rows;
    const int32_t channel = line - boundary * args.rows;
    const int32_t x = (boundary + 1) * args.band_columns - args.fringe_left + i - line * columns;
    if (x < args.width) {
      to[channel * args.destination_c + x * args.destination_w] = T(left[i] + right[i]);
    }
  }
}

}  // namespace

template <class T>
void launch_add_fringe(const Arguments& args, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(args.images * args.height);
  add_fringe_kernel<T><<<blocks, kAddThreads, 0, stream>>>(args);
  check_launch("few_channels add_fringe");
}

template void launch_add_fringe<float>(const Arguments&, cudaStream_t);
template void launch_add_fringe<__half>(const Arguments&, cudaStream_t);
template void launch_add_fringe<__nv_bfloat16>(const Arguments&, cudaStream_t);

}  // namespace haloconv::few_channels
