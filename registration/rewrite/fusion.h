// rewrite()'s second step: what follows each of haloconv's convolutions in a graph becomes part of
// it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "registration/torch_compat/jit_graphs.h"

namespace haloconv {

struct Fused {
  std::string what;  // the operators that are now part of the convolution, in order; "": none
  std::string why;   // why the next one is not, or ""
};

// Makes an addition of a tensor and an activation part of a fused operator if each is the only use
// of what it follows, and returns what became of each convolution. A tensor's size and type are
// known only when the graph runs, so an addition is fused in one branch of a condition, whose other
// branch has the operators as they were. Operators far from their convolution are fused until the
// work allowed for the graph, which is proportional to its size, is used up.
std::vector<Fused> fuse(const std::shared_ptr<torch::jit::Graph>& graph,
                        const std::vector<torch::jit::Node*>& convolutions);

}  // namespace haloconv
