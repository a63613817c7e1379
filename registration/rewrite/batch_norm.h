// A batch norm that follows a transposed convolution becomes part of its weight and bias.
//
// torch::jit::freeze does this for the other convolutions only.
#pragma once

#include "registration/torch_compat/jit_graphs.h"

namespace haloconv {

// Does nothing unless `convolution` is one of haloconv's and transposed, and weight, bias and batch
// norm are constants, as they are in a frozen model.
void fold_batch_norm(torch::jit::Node* convolution);

}  // namespace haloconv
