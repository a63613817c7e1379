// What kernels for autograd are written with: whether a result needs a gradient, its backward node,
// tangents.
#pragma once

#include <torch/csrc/autograd/functions/utils.h>
