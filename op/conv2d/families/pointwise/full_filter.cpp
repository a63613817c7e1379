#include "conv2d/families/pointwise/full_filter.h"

#include "conv2d/geometry/full_filter.h"

namespace haloconv::pointwise {

std::optional<Conv2dProblem> product_of_full_filter(const Conv2dProblem& problem) {
  const std::optional<Conv2dProblem> one = as_one_pixel(problem);
  if (!one) return std::nullopt;
  const int64_t values = one->c;
  Conv2dProblem product;
  product.type = one->type;
  product.n = 1, product.k = one->n, product.c = one->k;
  product.h = 1, product.w = values;
  product.output = {product.k * values, one->input.n, values, 1};
  product.input = {product.c * values, one->filter.n, values, 1};
  product.filter = {one->output.n, one->output.c, 1, 1};
  return product;
}

}  // namespace haloconv::pointwise
