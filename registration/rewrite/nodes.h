// What the rewriter asks of the nodes of TorchScript graphs.
#pragma once

#include <vector>

#include "registration/torch_compat/jit_graphs.h"

namespace haloconv {

bool is_convolution(const torch::jit::Node* node);

// With those of conditions, loops and what torch.jit.fork runs, which is a graph of its own.
std::vector<torch::jit::Node*> nodes_of(torch::jit::Block* block);

// The graph of a function that a node calls by prim::CallFunction; null: it calls none.
torch::jit::GraphFunction* called_function(const torch::jit::Node* node);

// The method that a node calls by prim::CallMethod, of a module or of another scripted class; null:
// it calls none, or which is known only when it runs.
torch::jit::GraphFunction* called_method(const torch::jit::Node* node);

}  // namespace haloconv
