#include "registration/rewrite/fusion.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "registration/conv2d/activation_table.h"
#include "registration/rewrite/nodes.h"
#include "registration/rewrite/replacement.h"

namespace haloconv {
namespace {

using torch::jit::AliasDb;
using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

// An activation as a fused operator's arguments.
struct FusedActivation {
  std::string name;
  std::vector<double> arguments;
};

// aten::relu for both aten::relu and aten::relu_.
std::string name_out_of_place(const Node* node) {
  std::string name = node->kind().toQualString();
  if (name.ends_with('_')) name.pop_back();
  return name;
}

// With out=, the result is written to another tensor too.
bool has_out(const Node* node) {
  const c10::FunctionSchema* const schema = node->maybeSchema();
  return schema != nullptr && std::ranges::any_of(schema->arguments(), &c10::Argument::is_out);
}

bool is_tensor(const Value* value) { return value->type()->isSubtypeOf(c10::TensorType::get()); }

// A constant number; `absent` for a constant None.
std::optional<double> number(const Value* value, std::optional<double> absent = std::nullopt) {
  const auto constant = torch::jit::toIValue(value);
  if (!constant) return std::nullopt;
  if (constant->isNone()) return absent;
  if (constant->isDouble() || constant->isInt()) return constant->toScalar().toDouble();
  return std::nullopt;
}

// Whether the node is ATen's operator for the entry's activation.
bool computes(const Node* node, const ActivationEntry& entry) {
  return !entry.aten.empty() && name_out_of_place(node) == "aten::" + std::string(entry.aten);
}

bool is_activation(const Node* node) {
  return std::ranges::any_of(activation_table(),
                             [&](const auto& entry) { return computes(node, entry); });
}

bool are_equal(const c10::IValue& a, const c10::IValue& b) {
  if (a.isScalar() && b.isScalar()) return a.toScalar().toDouble() == b.toScalar().toDouble();
  return a == b;
}

// The arguments with which the entry's activation does what the node does; none if it cannot.
std::optional<std::vector<double>> arguments_of(const Node* node, const ActivationEntry& entry) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> arguments;
  const auto& declared = node->schema().arguments();
  for (size_t i = 1; i < declared.size(); ++i) {
    const std::string& name = declared[i].name();
    if (std::ranges::find(entry.arguments, name) != entry.arguments.end()) {
      const auto given = number(node->input(i), arguments.empty() ? -kInfinity : kInfinity);
      if (!given) return std::nullopt;
      arguments.push_back(*given);
      continue;
    }
    const auto given = torch::jit::toIValue(node->input(i));
    const bool chosen = name == "approximate" && !entry.approximate.empty();
    const std::optional<c10::IValue> expected =
        chosen ? std::string(entry.approximate) : declared[i].default_value();
    if (!given || !expected || !are_equal(*given, *expected)) return std::nullopt;
  }
  if (arguments.size() == 2 && !(arguments[0] <= arguments[1])) return std::nullopt;
  return arguments;
}

// None if an argument is not constant, or is one that fused operators do not take.
std::optional<FusedActivation> activation_of(const Node* node) {
  for (const ActivationEntry& entry : activation_table()) {
    if (!computes(node, entry)) continue;
    if (auto arguments = arguments_of(node, entry)) {
      return FusedActivation{std::string(entry.name), *std::move(arguments)};
    }
  }
  return std::nullopt;
}

bool is_addition(const Node* node) {
  return name_out_of_place(node) == "aten::add" && is_tensor(node->input(0));
}

// Which input of the addition is added to `value`; none if that is not a tensor added as it is.
std::optional<size_t> added_to(const Value* value, const Node* addition) {
  if (addition->inputs().size() != 3 || number(addition->input(2)) != 1) return std::nullopt;
  const size_t index = addition->input(0) == value ? 1 : 0;
  const Value* const other = addition->input(index);
  const auto constant = torch::jit::toIValue(other);  // traced, a number is a tensor
  const bool is_number = constant && constant->isTensor() && constant->toTensor().dim() == 0;
  return is_tensor(other) && !is_number ? std::optional(index) : std::nullopt;
}

// Bounds the time that the moves of one graph take: AliasDb looks at each node that a move passes,
// at the users of its results and at what its blocks hold. Without a bound, convolutions far from
// what follows them would take a time that is quadratic in the size of the graph.
class Moves {
 public:
  explicit Moves(Graph& graph) : far_(kFarPerNode * nodes_of(graph.block()).size()) {}

  // Whether a node of the same block that comes after `first` may become its neighbour.
  bool reach(const Node* first, const Node* last) {
    int64_t near = kNear;
    for (const Node* node = first->next(); node != last; node = node->next()) {
      if (!pass(node, near)) return false;
    }
    return true;
  }

 private:
  // How much a move may pass at no cost, and how much all moves together may pass beyond that, for
  // each node.
  static constexpr int64_t kNear = 64, kFarPerNode = 8;

  bool pass(const Node* node, int64_t& near) {
    int64_t size = 1;
    for (const Value* output : node->outputs()) size += static_cast<int64_t>(output->uses().size());
    const int64_t free = std::min(near, size);
    near -= free;
    if (size > free) {
      far_ -= size - free;
      if (far_ < 0) return false;
    }
    for (const Block* block : node->blocks()) {
      for (const Node* inner : block->nodes()) {
        if (!pass(inner, near)) return false;
      }
    }
    return true;
  }

  int64_t far_;
};

// One convolution and what is to be fused with it: neighbours in the graph, in order.
class Chain {
 public:
  Chain(const std::shared_ptr<Graph>& graph, Node* convolution)
      : graph_(graph), nodes_{convolution}, op_(*forward_op_of(convolution)) {}

  // Adds what follows, unless another chain has `taken` it, until something cannot be added, and
  // then says why. Nodes are only moved, so that `aliases` stays true of the graph.
  std::string extend(AliasDb& aliases, Moves& moves, std::set<const Node*>& taken) {
    for (;;) {
      std::string why = add_next(aliases, moves, taken);
      if (!why.empty()) return why;
      taken.insert(nodes_.back());
      if (!activation_.name.empty()) return "";
    }
  }

  // The names of the nodes after the convolution.
  std::string what() const {
    std::string names;
    for (size_t i = 1; i < nodes_.size(); ++i) {
      names += std::string(i > 1 ? ", " : "") + nodes_[i]->kind().toUnqualString();
    }
    return names;
  }

  void replace() {
    if (nodes_.size() == 1) return;
    const torch::jit::WithInsertPoint before(nodes_.front());
    Node* const fused = fused_node();
    if (!residual_) {
      fused->insertBefore(nodes_.front());
      nodes_.back()->output()->replaceAllUsesWith(fused->output());
      for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) (*node)->destroy();
      return;
    }
    Node* const takes = takes_residual();
    Node* const either = graph_->insertNode(graph_->create(c10::prim::If, {takes->output()}, 1));
    either->output()->copyMetadata(fused->output());
    Block* const together = either->addBlock();
    together->appendNode(fused);
    together->registerOutput(fused->output());
    Block* const apart = either->addBlock();
    Value* const result = nodes_.back()->output();
    result->replaceAllUsesWith(either->output());
    for (Node* node : nodes_) node->moveBefore(apart->return_node());
    apart->registerOutput(result);
  }

 private:
  std::string add_next(AliasDb& aliases, Moves& moves, const std::set<const Node*>& taken) {
    const Value* const result = nodes_.back()->output();
    if (result->uses().empty()) return "its result is not used";
    if (result->uses().size() > 1) return "its result has more than one use";
    Node* const next = result->uses().front().user;
    const std::string name = next->kind().toQualString();
    if (taken.contains(next)) return name + " is part of another convolution";
    if (has_out(next)) return name + " has out=";
    if (is_addition(next) && !residual_) {
      if (name == "aten::add_" && next->input(0) != result) return name + " adds to another tensor";
      residual_ = added_to(result, next);
      if (!residual_) return name + " multiplies or adds a number";
    } else if (is_activation(next)) {
      const auto activation = activation_of(next);
      if (!activation) return name + " has arguments that are not known or not supported";
      activation_ = *activation;
    } else {
      return next->kind() == c10::prim::Return ? "its result leaves the block" : name + " follows";
    }
    const bool together = next->owningBlock() == nodes_.back()->owningBlock();
    const bool far = together && !moves.reach(nodes_.back(), next);
    if (together && !far && make_neighbours(next, aliases)) {
      nodes_.push_back(next);
      return "";
    }
    (is_activation(next) ? activation_.name.clear() : residual_.reset());
    return name + (far ? " is too far from it" : " would run at another time");
  }

  // A residual may be made after the convolution, which then moves; an activation needs nothing
  // else.
  bool make_neighbours(Node* next, AliasDb& aliases) const {
    return is_activation(next) ? aliases.moveAfterTopologicallyValid(next, nodes_.back())
                               : aliases.moveBeforeTopologicallyValid(nodes_.back(), next);
  }

  Node* fused_node() const {
    std::vector<Value*> arguments = nodes_.front()->inputs().vec();
    Value* const none = graph_->insertConstant(c10::IValue());
    arguments.insert(arguments.end(), {none, none, residual_ ? residual() : none});
    arguments.push_back(
        graph_->insertConstant(activation_.name.empty() ? "none" : activation_.name));
    arguments.push_back(graph_->insertConstant(activation_.arguments));
    Node* const node = create(op_.fused, arguments);
    node->output()->copyMetadata(nodes_.back()->output());
    return node;
  }

  // Another chain may have replaced the node that made it since it was found.
  Value* residual() const { return nodes_[1]->input(*residual_); }

  // Whether the residual is as the fused operator takes it.
  Node* takes_residual() const {
    std::vector<Value*> arguments = nodes_.front()->inputs().vec();
    arguments[2] = residual();  // in place of the bias
    Node* const node = graph_->insertNode(create(op_.takes_residual, arguments));
    node->output()->setType(c10::BoolType::get());
    return node;
  }

  Node* create(const char* name, const std::vector<Value*>& arguments) const {
    Node* const node = graph_->create(c10::Symbol::fromQualString(name), arguments, 1);
    node->setSourceRange(nodes_.front()->sourceRange());
    TORCH_CHECK(node->maybeSchema() != nullptr, "haloconv::rewrite: no overload of ", name,
                " takes the arguments of ", *nodes_.front());
    return node;
  }

  std::shared_ptr<Graph> graph_;
  std::vector<Node*> nodes_;
  const ForwardOp& op_;
  std::optional<size_t> residual_;  // which input of the addition, nodes_[1]
  FusedActivation activation_;
};

}  // namespace

std::vector<Fused> fuse(const std::shared_ptr<Graph>& graph,
                        const std::vector<Node*>& convolutions) {
  std::vector<Chain> chains;
  std::vector<Fused> fused;
  {
    AliasDb aliases(graph);  // takes as long as the graph is large: one for all
    Moves moves(*graph);
    std::set<const Node*> taken;
    for (Node* convolution : convolutions) {
      Chain& chain = chains.emplace_back(graph, convolution);
      const std::string why = chain.extend(aliases, moves, taken);
      fused.push_back({chain.what(), why});
    }
  }
  for (Chain& chain : chains) chain.replace();
  return fused;
}

}  // namespace haloconv
