#include "registration/rewrite/inlining.h"

#include <algorithm>

namespace haloconv {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::GraphFunction;
using torch::jit::Node;

// Counts stop here: those of deeply nested calls would overflow an int64_t.
constexpr int64_t kTooMany = Inlining::kMostNodes + 1;

int64_t add(int64_t a, int64_t b) { return std::min(a + b, kTooMany); }

void check(int64_t nodes, const char* what) {
  TORCH_CHECK(nodes <= Inlining::kMostNodes, "haloconv::rewrite: expected a model of at most ",
              Inlining::kMostNodes, " nodes once ", what,
              " are part of what calls them, but it has more");
}

}  // namespace

void Inlining::check_freezing(Graph& graph) {
  check(frozen_nodes(graph), "all functions and methods");
}

void Inlining::inline_functions(Graph& graph) {
  const int64_t nodes = add(nodes_, look_at(graph).nodes);
  check(nodes, "functions with convolutions");
  nodes_ = nodes;
  inline_in(graph.block());
}

// A function that calls itself would count as nothing within itself. TorchScript compiles none.
const Inlining::Callee& Inlining::callee(GraphFunction* function) {
  const auto [entry, is_new] = callees_.try_emplace(function);
  if (is_new) entry->second = look_at(*function->graph());
  return entry->second;
}

Inlining::Callee Inlining::look_at(Graph& graph) {
  Callee found;
  for (const Node* node : nodes_of(graph.block())) {
    found.nodes = add(found.nodes, 1);
    found.holds_convolution = found.holds_convolution || is_convolution(node);
    GraphFunction* const called = called_function(node);
    if (called == nullptr || !callee(called).holds_convolution) continue;
    found.holds_convolution = true;
    found.nodes = add(found.nodes, callee(called).nodes);
  }
  return found;
}

int64_t Inlining::frozen_nodes(Graph& graph) {
  int64_t nodes = 0;
  for (const Node* node : nodes_of(graph.block())) {
    nodes = add(nodes, 1);
    GraphFunction* const function = called_function(node);
    GraphFunction* const called = function != nullptr ? function : called_method(node);
    if (called == nullptr) continue;
    const auto [entry, is_new] = frozen_.try_emplace(called);
    if (is_new) entry->second = frozen_nodes(*called->graph());
    nodes = add(nodes, entry->second);
  }
  return nodes;
}

void Inlining::inline_in(Block* block) {
  for (Node* node = *block->nodes().begin(); node != block->return_node();) {
    GraphFunction* const called = called_function(node);
    if (called != nullptr && callee(called).holds_convolution) {
      Node* const before = node->prev();
      node->removeInput(0);  // the function itself
      // The graph as it is: in torch's optimised graph all calls are inlined, whatever their size.
      torch::jit::inlineCallTo(node, called, called->graph().get());
      node = before->next();
      continue;
    }
    for (Block* inner : node->blocks()) inline_in(inner);
    if (node->kind() == c10::prim::fork) inline_in(node->g(c10::attr::Subgraph)->block());
    node = node->next();
  }
}

}  // namespace haloconv
