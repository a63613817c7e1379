// Batch norm that follows a transposed convolution becomes part of its weight and bias.
//
// torch::jit::freeze does so with the other convolutions, and leaves these.
#pragma once

#include "registration/torch_compat/jit_graphs.h"

namespace haloconv {

// Of haloconv's convolution, where it is transposed, and weight, bias and batch norm are constants,
// as they are in a frozen model.
void fold_batch_norm(torch::jit::Node* convolution);

}  // namespace haloconv
