#include "registration/rewrite/nodes.h"

#include <set>
#include <string>

namespace haloconv {
namespace {

using torch::jit::Block;
using torch::jit::Node;

void add_nodes(Block* block, std::vector<Node*>& nodes) {
  for (Node* node : block->nodes()) {
    nodes.push_back(node);
    for (Block* inner : node->blocks()) add_nodes(inner, nodes);
    if (node->kind() == c10::prim::fork) add_nodes(node->g(c10::attr::Subgraph)->block(), nodes);
  }
}

}  // namespace

bool is_convolution(const Node* node) {
  static const std::set<std::string> names = {
      "aten::conv1d",           "aten::conv2d",           "aten::conv3d",
      "aten::convolution",      "aten::_convolution",     "aten::_convolution_mode",
      "aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d",
      "quantized::conv2d",      "quantized::conv2d_relu"};
  return names.contains(node->kind().toQualString());
}

std::vector<Node*> nodes_of(Block* block) {
  std::vector<Node*> nodes;
  add_nodes(block, nodes);
  return nodes;
}

torch::jit::GraphFunction* called_function(const Node* node) {
  if (node->kind() != c10::prim::CallFunction) return nullptr;
  const auto type = node->input(0)->type()->cast<c10::FunctionType>();
  return type ? torch::jit::tryToGraphFunction(*type->function()) : nullptr;
}

torch::jit::GraphFunction* called_method(const Node* node) {
  if (node->kind() != c10::prim::CallMethod) return nullptr;
  const auto type = node->input(0)->type()->cast<c10::ClassType>();
  torch::jit::Function* const method = type ? type->findMethod(node->s(c10::attr::name)) : nullptr;
  return method != nullptr ? torch::jit::tryToGraphFunction(*method) : nullptr;
}

}  // namespace haloconv
