#include "conv2d/device/element.cuh"
#include "conv2d/families/few_channels/add_fringe.h"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::few_channels {

namespace {

constexpr int kAddThreads = 128;
constexpr int kPairThreads = 256;

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

// The same of shuffled_epilogue.cuh's pairs of columns, one for each thread: of all rows,
// boundaries and channels.
template <class T>
__global__ void __launch_bounds__(kPairThreads)
    add_pairs_kernel(const __grid_constant__ Arguments args, int32_t pairs) {
  const auto pair = static_cast<int32_t>(blockIdx.x * kPairThreads + threadIdx.x);
  if (pair >= pairs) return;
  const int32_t line = pair / args.rows, row_of_all = line / (args.bands - 1);
  const int32_t channel = pair - line * args.rows;
  const int32_t x = (line - row_of_all * (args.bands - 1) + 1) * args.band_columns;
  if (x >= args.width) return;
  const int32_t image = row_of_all / args.height, row = row_of_all - image * args.height;
  const float2 left = reinterpret_cast<const float2*>(args.fringe)[pair];
  const float2 right = reinterpret_cast<const float2*>(args.fringe)[pairs + pair];
  T* const to = static_cast<T*>(args.destination) + image * args.destination_n +
                row * args.destination_h + channel * args.destination_c + x;
  Element<T>::template store<2>(to, {left.x + right.x, left.y + right.y}, true);
}

}  // namespace

template <class T>
void launch_add_fringe(const Arguments& args, cudaStream_t stream) {
  const int32_t rows = args.images * args.height;
  if (args.fringe_columns() == 2 && args.writes_pairs) {
    const int32_t pairs = rows * (args.bands - 1) * args.rows;
    const auto blocks = static_cast<unsigned>(ceil_div_32(pairs, kPairThreads));
    add_pairs_kernel<T><<<blocks, kPairThreads, 0, stream>>>(args, pairs);
  } else {
    add_fringe_kernel<T><<<static_cast<unsigned>(rows), kAddThreads, 0, stream>>>(args);
  }
  check_launch("few_channels add_fringe");
}

template void launch_add_fringe<float>(const Arguments&, cudaStream_t);
template void launch_add_fringe<__half>(const Arguments&, cudaStream_t);
template void launch_add_fringe<__nv_bfloat16>(const Arguments&, cudaStream_t);

}  // namespace haloconv::few_channels
