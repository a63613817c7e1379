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

// Takes an addition of a tensor and an activation, each the only use of what it follows, into a
// fused operator; says of each convolution what became of it. A tensor's size and type are
// known only when the graph runs: an addition is fused in one branch of a condition, whose other
// branch has the operators as they were. What is far from its convolution is fused while the
// time allowed to the graph, in proportion to its size, lasts.
std::vector<Fused> fuse(const std::shared_ptr<torch::jit::Graph>& graph,
                        const std::vector<torch::jit::Node*>& convolutions);

}  // namespace haloconv
