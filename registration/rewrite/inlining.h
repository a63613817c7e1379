// Scripted functions become part of what calls them.
//
// A file of some lines can call a function twice that calls another twice, and so on: what has to
// be known of a function is worked out once, and what inlining comes to is counted before it is
// done.
#pragma once

#include <cstdint>
#include <map>

#include "registration/rewrite/nodes.h"

namespace haloconv {

class Inlining {
 public:
  // The most nodes that a model's graphs may have together once functions are part of them: many
  // times what ResNet-50 has when it is frozen, and still rewritten in some seconds.
  static constexpr int64_t kMostNodes = 200'000;

  // Raises c10::Error where the graph with all functions and methods that it calls, which is what
  // torch::jit::freeze makes of it, would have more than kMostNodes nodes.
  void check_freezing(torch::jit::Graph& graph);

  // Functions belong to no module, and others may call them: those with convolutions become part of
  // the caller. Raises c10::Error, and leaves the graph as it is, where it and those before it
  // would have more than kMostNodes nodes.
  void inline_functions(torch::jit::Graph& graph);

 private:
  struct Callee {
    bool holds_convolution = false;
    int64_t nodes = 0;  // with those of the functions with convolutions that it calls
  };

  const Callee& callee(torch::jit::GraphFunction* function);
  Callee look_at(torch::jit::Graph& graph);
  int64_t frozen_nodes(torch::jit::Graph& graph);
  void inline_in(torch::jit::Block* block);

  std::map<torch::jit::GraphFunction*, Callee> callees_;
  std::map<torch::jit::GraphFunction*, int64_t> frozen_;
  int64_t nodes_ = 0;  // of the graphs so far
};

}  // namespace haloconv
