#include "conv2d/rates.h"

#include <algorithm>

namespace haloconv {

int fma_rate(const Chip& chip, DataType type) {
  return type == DataType::kFloat64 ? chip.multiply_adds.float64 : chip.multiply_adds.float32;
}

int matrix_rate(const Chip& chip, DataType type, bool tf32) {
  switch (type) {
    case DataType::kFloat32:
      return tf32 ? chip.multiply_adds.tf32_matrix : 0;
    case DataType::kFloat64:
      return chip.multiply_adds.float64_matrix;
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return chip.multiply_adds.half_matrix;
    case DataType::kOther:
      break;
  }
  return 0;
}

double peak_rate(const Chip& chip, DataType type, bool tf32) {
  const int matrix = type == DataType::kFloat32 && !tf32 ? chip.multiply_adds.tf32_matrix / 3
                                                         : matrix_rate(chip, type, tf32);
  return chip.flop_rate(std::max(fma_rate(chip, type), matrix));
}

double least_ms(const Conv2dProblem& problem, const Chip& chip, bool tf32, double part) {
  return 1e3 * std::max(problem.bytes() / chip.memory_rate,
                        part * problem.flop() / peak_rate(chip, problem.type, tf32));
}

}  // namespace haloconv
