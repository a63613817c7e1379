#include "registration/rewrite/batch_norm.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "registration/rewrite/replacement.h"

namespace haloconv {
namespace {

using torch::jit::Node;
using torch::jit::Value;

struct ConvolutionInput {
  enum : size_t { kInput, kWeight, kBias, kGroups = 6 };
};
struct BatchNormInput {
  enum : size_t { kScale = 1, kShift, kMean, kVar, kTraining, kEps = 7 };
};

// The tensor that a value is constantly, undefined for a constant None; nullopt if it is no
// constant.
std::optional<at::Tensor> tensor(const Value* value) {
  const auto constant = torch::jit::toIValue(value);
  if (!constant || !(constant->isTensor() || constant->isNone())) return std::nullopt;
  return constant->isTensor() ? constant->toTensor() : at::Tensor();
}

// The batch norm that is the only one to use the result's values; null if there is none. `asking`
// gets the nodes that ask for the result's number of dimensions, as torch.nn's batch norms do.
Node* batch_norm_after(const Node* convolution, std::vector<Node*>& asking) {
  Node* found = nullptr;
  for (const torch::jit::Use& use : convolution->output()->uses()) {
    if (use.user->kind() == c10::aten::dim) {
      asking.push_back(use.user);
    } else if (use.user->kind() == c10::aten::batch_norm && use.offset == 0 && found == nullptr) {
      found = use.user;
    } else {
      return nullptr;
    }
  }
  return found;
}

struct Folded {
  at::Tensor weight, bias;
};

// Weight (c, k / groups, r, s), or without r; all others (k) or undefined.
std::optional<Folded> fold(const at::Tensor& weight, const at::Tensor& bias, int64_t groups,
                           const Node* norm) {
  const auto scale = tensor(norm->input(BatchNormInput::kScale)),
             shift = tensor(norm->input(BatchNormInput::kShift)),
             mean = tensor(norm->input(BatchNormInput::kMean)),
             var = tensor(norm->input(BatchNormInput::kVar));
  const auto training = torch::jit::toIValue(norm->input(BatchNormInput::kTraining)),
             eps = torch::jit::toIValue(norm->input(BatchNormInput::kEps));
  if (!scale || !shift || !mean || !var || !mean->defined() || !var->defined()) return {};
  if (!training || !training->isBool() || training->toBool() || !eps || !eps->isDouble()) return {};
  const std::vector<at::Tensor> vectors = {bias, *scale, *shift, *mean, *var};
  const int64_t k = weight.size(1) * groups;
  const bool is_known = std::ranges::all_of(vectors, [&](const at::Tensor& vector) {
    return !vector.defined() ||
           (vector.dim() == 1 && vector.size(0) == k &&
            vector.scalar_type() == weight.scalar_type() && vector.device() == weight.device());
  });
  if (!is_known || !weight.is_floating_point()) return {};
  // Rounded once.
  const auto wide = [](const at::Tensor& vector) { return vector.to(at::kDouble); };
  at::Tensor factor = (wide(*var) + eps->toDouble()).rsqrt();
  if (scale->defined()) factor = factor * wide(*scale);
  at::Tensor sum = (bias.defined() ? wide(bias) - wide(*mean) : -wide(*mean)) * factor;
  if (shift->defined()) sum = sum + wide(*shift);
  const at::Tensor grouped = wide(weight).unflatten(0, {groups, -1});
  std::vector<int64_t> along_channels(grouped.dim(), 1);
  along_channels[0] = groups;
  along_channels[2] = weight.size(1);
  const at::Tensor scaled = (grouped * factor.view(along_channels)).flatten(0, 1);
  return Folded{at::empty_like(weight).copy_(scaled), sum.to(weight.scalar_type())};
}

}  // namespace

void fold_batch_norm(Node* convolution) {
  const ForwardOp* const op = forward_op_of(convolution);
  if (op == nullptr || !op->transposed) return;
  std::vector<Node*> asking;
  Node* const norm = batch_norm_after(convolution, asking);
  const auto weight = tensor(convolution->input(ConvolutionInput::kWeight)),
             bias = tensor(convolution->input(ConvolutionInput::kBias));
  const auto groups = torch::jit::toIValue(convolution->input(ConvolutionInput::kGroups));
  if (norm == nullptr || !weight || !weight->defined() || !bias || !groups || !groups->isInt()) {
    return;
  }
  const auto folded = fold(*weight, *bias, groups->toInt(), norm);
  if (!folded) return;
  {
    const torch::jit::WithInsertPoint before(convolution);
    torch::jit::Graph& graph = *convolution->owningGraph();
    convolution->replaceInput(ConvolutionInput::kWeight, graph.insertConstant(folded->weight));
    convolution->replaceInput(ConvolutionInput::kBias, graph.insertConstant(folded->bias));
  }
  // The input has as many, and its other uses keep nothing from becoming part of the convolution.
  for (Node* node : asking) node->replaceInput(0, convolution->input(ConvolutionInput::kInput));
  norm->output()->replaceAllUsesWith(convolution->output());
  norm->destroy();
}

}  // namespace haloconv
