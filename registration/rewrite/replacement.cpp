#include "registration/rewrite/replacement.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace haloconv {
namespace {

using torch::jit::Node;
using torch::jit::Value;

// Inputs of aten::convolution and aten::_convolution. aten::_convolution_mode has a string for the
// padding, and only groups after the dilation.
enum GeneralInput : size_t {
  kWeight = 1,
  kStride = 3,
  kPadding,
  kDilation,
  kTransposed,
  kOutputPadding,
  kGroups,
};

bool is_general(const Node* node) {
  const std::string name = node->kind().toUnqualString();
  return name == "convolution" || name == "_convolution";
}

// How many values a list of integers has; none if the graph does not say.
std::optional<size_t> list_size(const Value* list) {
  if (list->node()->kind() == c10::prim::ListConstruct) return list->node()->inputs().size();
  const auto constant = torch::jit::toIValue(list);
  if (constant && constant->isIntList()) return constant->toIntList().size();
  return std::nullopt;
}

// The dimensions of a pixel, for a general operator or _convolution_mode. A list may hold one value
// for all dimensions, so the longest list tells, if the weight's own dimensions are not known.
std::optional<int64_t> pixel_dims_of(const Node* node) {
  const auto weight = torch::jit::toIValue(node->input(kWeight));
  if (weight && weight->isTensor()) return weight->toTensor().dim() - 2;
  std::vector<size_t> lists = {kStride, kDilation};
  if (is_general(node)) lists.insert(lists.end(), {kPadding, kOutputPadding});
  if (!list_size(node->input(kStride))) return std::nullopt;
  size_t longest = 0;
  for (const size_t list : lists) {
    longest = std::max(longest, list_size(node->input(list)).value_or(0));
  }
  return static_cast<int64_t>(longest);
}

}  // namespace

Replacement find_replacement(const Node* convolution) {
  const std::string name = convolution->kind().toUnqualString();
  if (convolution->kind().toQualString() == "quantized::" + name)
    return {nullptr, "it is quantized"};
  for (const ForwardOp* op : kForwardOps) {
    if (name == op->short_name) return {op, ""};
  }
  if (name == "conv3d" || name == "conv_transpose3d") return {nullptr, "it is 3-D"};
  const std::optional<int64_t> pixel_dims = pixel_dims_of(convolution);
  if (!pixel_dims) return {nullptr, "its number of dimensions is not known"};
  bool transposed = false;
  if (is_general(convolution)) {
    const auto constant = torch::jit::toIValue(convolution->input(kTransposed));
    if (!constant || !constant->isBool()) return {nullptr, "whether it is transposed is not known"};
    transposed = constant->toBool();
  }
  for (const ForwardOp* op : kForwardOps) {
    if (op->pixel_dims == *pixel_dims && op->transposed == transposed) return {op, ""};
  }
  return {nullptr, "it is " + std::to_string(*pixel_dims) + "-D"};
}

Node* replace_by(const ForwardOp& op, Node* convolution) {
  // ATen's operators of these names have haloconv's arguments.
  std::vector<Value*> arguments = convolution->inputs().vec();
  if (is_general(convolution)) {
    const auto inputs = convolution->inputs();
    arguments.assign(inputs.begin(), inputs.begin() + kDilation);
    if (op.transposed) {
      arguments.insert(arguments.end(), {inputs[kOutputPadding], inputs[kGroups]});
      arguments.push_back(inputs[kDilation]);
    } else {
      arguments.insert(arguments.end(), {inputs[kDilation], inputs[kGroups]});
    }
  }
  torch::jit::Graph& graph = *convolution->owningGraph();
  Node* const ours = graph.create(c10::Symbol::fromQualString(op.name), arguments, 1);
  ours->insertBefore(convolution);
  ours->setSourceRange(convolution->sourceRange());
  ours->output()->copyMetadata(convolution->output());
  TORCH_CHECK(ours->maybeSchema() != nullptr, "haloconv::rewrite: no overload of ", op.name,
              " takes the arguments of ", *convolution);
  convolution->output()->replaceAllUsesWith(ours->output());
  convolution->destroy();
  return ours;
}

const ForwardOp* forward_op_of(const Node* node) {
  const std::string name = node->kind().toQualString();
  const auto found = std::ranges::find(kForwardOps, name, &ForwardOp::name);
  return found == kForwardOps.end() ? nullptr : *found;
}

}  // namespace haloconv
