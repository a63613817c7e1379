// Scripted functions become part of what calls them.
//
// A short file can have a function that calls another twice, which calls a third twice, and so on.
// So each function is looked at once, and the nodes that inlining would make are counted before it
// is done.
#pragma once

#include <cstdint>
#include <map>

#include "registration/rewrite/nodes.h"

namespace haloconv {

class Inlining {
 public:
  // The most nodes that a model's graphs may have together after inlining: many times those of a
  // frozen ResNet-50, and few enough to be rewritten in some seconds.
  static constexpr int64_t kMostNodes = 200'000;

  // Raises c10::Error if the graph would have more than kMostNodes nodes with all functions and
  // methods that it calls, which torch::jit::freeze makes part of it.
  void check_freezing(torch::jit::Graph& graph);

  // Makes functions that hold convolutions part of the graph. (They belong to no module and may
  // have other callers, so that they cannot be changed themselves.) Raises c10::Error and changes
  // nothing if this graph and those before it would have more than kMostNodes nodes.
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
