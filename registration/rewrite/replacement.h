// A convolution of ATen in a TorchScript graph as one of haloconv's operators.
#pragma once

#include <string>

#include "registration/conv2d/forward_ops.h"
#include "registration/torch_compat/jit_graphs.h"

namespace haloconv {

struct Replacement {
  const ForwardOp* op = nullptr;  // null: no operator computes what the node does
  std::string why;                // why none does, or ""
};

Replacement find_replacement(const torch::jit::Node* convolution);

// Puts a node of the operator in the convolution's place, and returns it.
torch::jit::Node* replace_by(const ForwardOp& op, torch::jit::Node* convolution);

// The operator of haloconv that the node calls; null if it calls none.
const ForwardOp* forward_op_of(const torch::jit::Node* node);

}  // namespace haloconv
