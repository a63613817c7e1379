// Weight gradients as forward passes of other problems, whose channels are what is summed over. The
// tensor cores take float32 of operands that have it innermost alone: so these bring both operands
// as they are multiplied, where the families of weight gradients transpose them on the way.
#pragma once

#include <vector>

#include "conv2d/families/relaid/relaid_problem.h"

namespace haloconv::relaid {

// For a weight gradient that always_declines() passes, of tensors with rows innermost. By pixels:
//
//   grad_filter[k, (c, r, s)] = sum over images and pixels of
//     grad_output[image, k, pixel] * unfolded input[image, (c, r, s), pixel]
//
// is the pass of an image of `n` rows and k columns by a filter of n rows, both as they lie in
// memory. By images, for small images of which there are many:
//
//   grad_filter[c, k, r, s] = sum over images, p and q of
//     grad_output[k, image, p, q] * input[c, image, p*stride + r*dilation, q*stride + s*dilation]
//
// is the pass of c images by k filters of p x q taps, with strides and dilations exchanged.
std::vector<RelaidProblem> products_of(const Conv2dProblem& problem, bool is_aligned);

}  // namespace haloconv::relaid
