#include "conv2d/device/round.cuh"
#include "conv2d/families/channels_last/instances.h"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::sm90::channels_last {

namespace {

constexpr int kTransposeThreads = 256;

__global__ void __launch_bounds__(kTransposeThreads)
    transpose_filter(const float* filter, float* transposed, int64_t count, FastDiv k, FastDiv s,
                     FastDiv r, Strides strides) {
  const int64_t i = int64_t{blockIdx.x} * kTransposeThreads + threadIdx.x;
  if (i >= count) return;
  const auto index = static_cast<int32_t>(i);
  const int32_t above_k = k.quotient(index), above_s = s.quotient(above_k);
  const int32_t c = r.quotient(above_s);
  const int64_t at = (index - above_k * k.divisor) * strides.n + c * strides.c +
                     (above_s - c * r.divisor) * strides.h +
                     (above_k - above_s * s.divisor) * strides.w;
  transposed[i] = __uint_as_float(round_to_tf32(filter[at]));
}

}  // namespace

void launch_transpose_filter(const Conv2dProblem& problem, const float* filter, float* transposed,
                             cudaStream_t stream) {
  const int64_t count = problem.k * problem.r * problem.s * problem.group_c();
  transpose_filter<<<static_cast<unsigned>(ceil_div(count, kTransposeThreads)), kTransposeThreads,
                     0, stream>>>(filter, transposed, count, FastDiv(problem.k), FastDiv(problem.s),
                                  FastDiv(problem.r), problem.filter);
  check_launch("sm90 channels_last filter");
}

}  // namespace haloconv::sm90::channels_last
