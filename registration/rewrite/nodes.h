// What the rewriter asks about the nodes of TorchScript graphs.
#pragma once

#include <vector>

#include "registration/torch_compat/jit_graphs.h"

namespace haloconv {

bool is_convolution(const torch::jit::Node* node);

// All nodes of a block, with those in its conditions and loops, and those that torch.jit.fork runs,
// which are in a graph of their own.
std::vector<torch::jit::Node*> nodes_of(torch::jit::Block* block);

// The function that a node calls by prim::CallFunction; null if it calls none.
torch::jit::GraphFunction* called_function(const torch::jit::Node* node);

// The method, of a module or of another scripted class, that a node calls by prim::CallMethod; null
// if it calls none, or if that is known only when it runs.
torch::jit::GraphFunction* called_method(const torch::jit::Node* node);

}  // namespace haloconv
