#include "conv2d/families/pointwise/unfold_kernels.h"

#include "conv2d/device/unfold.cuh"
#include "conv2d/families/pointwise/one_tap.h"
#include "conv2d/families/pointwise/operand.cuh"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::pointwise {

namespace {

template <int kUnit>
__global__ void __launch_bounds__(kUnfoldThreads)
    spread_out_kernel(const __grid_constant__ Unfold unfold, const FastDiv units,
                      const FastDiv rows, const FastDiv stride_h, const FastDiv stride_w,
                      int32_t all_rows, const uint16_t* copy, uint16_t* grad_input) {
  const RowUnit unit(units, kUnit);
  if (unit.row >= all_rows) return;
  const int32_t plane = rows.quotient(unit.row), h = unit.row - plane * rows.divisor;
  const int32_t n = unfold.c.quotient(plane), c = plane - n * unfold.c.divisor;
  const int32_t p = stride_h.quotient(h);
  RowValues<uint16_t, kUnit> values = {};
  if (p < unfold.p && p * unfold.stride_h == h) {
    const uint16_t* const from = copy + (int64_t{plane} * unfold.p + p) * unfold.q;
    int32_t q = stride_w.quotient(unit.first), beyond = unit.first - q * unfold.stride_w;
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      if (beyond == 0 && q < unfold.q) values.of[i] = __ldg(from + q);
      const bool is_next = ++beyond == unfold.stride_w;
      q += is_next ? 1 : 0;
      beyond = is_next ? 0 : beyond;
    }
  }
  *reinterpret_cast<RowValues<uint16_t, kUnit>*>(
      grad_input + n * unfold.input_n + c * unfold.input_c + h * unfold.input_h + unit.first) =
      values;
}

}  // namespace

void launch_unfold(const Unfold& unfold, const void* input, void* copy, cudaStream_t stream) {
  enqueue_unfold(unfold, input, copy, stream);
}

void launch_spread_out(const Unfold& unfold, const void* copy, void* grad_input,
                       cudaStream_t stream) {
  const int32_t unit = aligned_unit(unfold.unit, grad_input);
  const int64_t rows = int64_t{unfold.n} * unfold.c.divisor * unfold.h, units = unfold.w / unit;
  with_host_unit(unit, [&]<int kUnit>() {
    spread_out_kernel<kUnit><<<unfold_blocks(rows, units), kUnfoldThreads, 0, stream>>>(
        unfold, FastDiv(units), FastDiv(unfold.h), FastDiv(unfold.stride_h),
        FastDiv(unfold.stride_w), static_cast<int32_t>(rows), static_cast<const uint16_t*>(copy),
        static_cast<uint16_t*>(grad_input));
  });
  check_launch("pointwise unfold");
}

}  // namespace haloconv::pointwise
