#include "conv2d/families/implicit_gemm/interleaved_rows.h"

#include "conv2d/geometry/integers.h"

namespace haloconv::implicit_gemm {

std::vector<InterleavedRows> interleaved_rows(const Conv2dProblem& problem) {
  constexpr int64_t kMost = 4;
  const int64_t apart = problem.dilation_h;
  if (apart < 2 || apart > kMost || problem.r < 2 || problem.stride_h != 1) return {};
  // With as many rows each row of the input belongs to one of the problems.
  if (problem.p() < apart || problem.h < apart) return {};
  std::vector<InterleavedRows> all;
  for (int64_t row = 0; row < apart; ++row) {
    // The output's row `row` meets the input's row `first_met` first, which may be padding.
    const int64_t first_met = row - problem.pad_top;
    const int64_t input_row = (first_met % apart + apart) % apart;
    InterleavedRows& rows = all.emplace_back();
    rows.input_offset = input_row * problem.input.h;
    rows.output_offset = row * problem.output.h;
    Conv2dProblem& p = rows.problem = problem;
    p.dilation_h = 1;
    p.input.h *= apart;
    p.output.h *= apart;
    p.h = ceil_div(problem.h - input_row, apart);
    p.pad_top = (input_row - first_met) / apart;
    p.pad_bottom = ceil_div(problem.p() - row, apart) + p.r - 1 - p.h - p.pad_top;
  }
  return all;
}

}  // namespace haloconv::implicit_gemm
