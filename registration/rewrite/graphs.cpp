#include "registration/rewrite/graphs.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "registration/rewrite/batch_norm.h"
#include "registration/rewrite/fusion.h"
#include "registration/rewrite/inlining.h"
#include "registration/rewrite/nodes.h"
#include "registration/rewrite/replacement.h"

namespace haloconv {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

// The method of a scripted class, not of a module, that the node calls; null if it calls none.
torch::jit::GraphFunction* called_class_method(const Node* node) {
  if (node->kind() != c10::prim::CallMethod) return nullptr;
  const auto type = node->input(0)->type()->cast<c10::ClassType>();
  return type && !type->is_module() ? called_method(node) : nullptr;
}

// A scripted `with torch.autocast(...)`. When such a graph runs, TorchScript casts the operands of
// ATen's operators in a list, also in methods called within it.
bool begins_autocast(const Node* node) {
  if (node->kind() != c10::prim::Enter) return false;
  const auto type = node->input(0)->type()->cast<c10::ClassType>();
  return type && type->name() && type->name()->name() == "autocast";
}

std::string describe(const Node* node, const c10::QualifiedName& method) {
  std::ostringstream text;
  text << node->kind().toQualString() << " in " << method.qualifiedName();
  if (const auto line = node->sourceRange().file_line_col()) {
    const auto& [file, row, column] = *line;
    text << " (" << file << ':' << row << ')';
  }
  return text.str();
}

using Replaced = std::vector<std::pair<std::string, Node*>>;  // where, and by which node

void fuse_method(const std::shared_ptr<Graph>& graph, const Replaced& replaced,
                 RewriteReport& report) {
  // Asked beforehand, because fusing destroys these nodes.
  std::vector<Node*> own;
  std::vector<bool> is_forked;  // in the graph of a fork
  for (const auto& [where, node] : replaced) {
    is_forked.push_back(node->owningGraph() != graph.get());
    if (!is_forked.back()) own.push_back(node);
  }
  const std::vector<Fused> fused = fuse(graph, own);
  auto next = fused.begin();
  for (size_t i = 0; i < replaced.size(); ++i) {
    const Fused& done = is_forked[i] ? Fused{"", "it is in a fork"} : *next++;
    report.fused.push_back({replaced[i].first, done.what, done.why});
  }
}

void rewrite_method(torch::jit::GraphFunction& method, bool autocast, const RewriteOptions& options,
                    RewriteReport& report) {
  const std::shared_ptr<Graph> graph = method.graph();
  Replaced replaced;
  for (Node* node : nodes_of(graph->block())) {
    if (!is_convolution(node)) continue;
    const auto [op, why] = find_replacement(node);
    const RewriteReport::Convolution found = {
        describe(node, method.qualname()),
        autocast ? "the model has an autocast region, and is not frozen" : why};
    (found.why.empty() ? report.replaced : report.left).push_back(found);
    if (found.why.empty()) replaced.emplace_back(found.where, replace_by(*op, node));
  }
  for (const auto& [where, node] : replaced) fold_batch_norm(node);
  if (options.fuse) fuse_method(graph, replaced, report);
  torch::jit::EliminateDeadCode(graph);
}

using Methods = std::vector<torch::jit::GraphFunction*>;

// Methods and hooks of a module and its submodules, and of the classes that these use. Each is
// listed once, because modules of one class share them.
class MethodsOf {
 public:
  explicit MethodsOf(const torch::jit::Module& module) {
    for (const torch::jit::Module& part : module.modules()) {
      for (torch::jit::Function* function : part.type()->methods()) add(function);
      for (torch::jit::Function* function : part.type()->getForwardHooks()) add(function);
      for (torch::jit::Function* function : part.type()->getForwardPreHooks()) add(function);
    }
  }

  const Methods& methods() const { return methods_; }

  // Whether one of their nodes, or of the functions that they call, is such.
  bool have(bool (*is_such)(const Node*)) const {
    return std::ranges::any_of(graphs_, [&](Graph* graph) {
      return std::ranges::any_of(nodes_of(graph->block()), is_such);
    });
  }

 private:
  void add(torch::jit::Function* function) {
    torch::jit::GraphFunction* const method = torch::jit::tryToGraphFunction(*function);
    if (method == nullptr || !seen_.insert(function).second) return;
    methods_.push_back(method);
    add_called(*method->graph());
  }

  void add_called(Graph& graph) {
    graphs_.push_back(&graph);
    for (const Node* node : nodes_of(graph.block())) {
      if (torch::jit::GraphFunction* const method = called_class_method(node)) add(method);
      torch::jit::GraphFunction* const called = called_function(node);
      if (called != nullptr && seen_.insert(called).second) add_called(*called->graph());
    }
  }

  Methods methods_;
  std::vector<Graph*> graphs_;
  std::set<torch::jit::Function*> seen_;
};

// The module's methods other than forward that none of its graphs calls.
std::vector<std::string> exported_methods(const torch::jit::Module& module) {
  std::set<std::string> called = {"forward"};
  const MethodsOf found(module);
  for (torch::jit::GraphFunction* method : found.methods()) {
    for (const Node* node : nodes_of(method->graph()->block())) {
      if (node->kind() == c10::prim::CallMethod) called.insert(node->s(c10::attr::name));
    }
  }
  std::vector<std::string> exported;
  for (const torch::jit::Method& method : module.get_methods()) {
    if (!called.contains(method.name())) exported.push_back(method.name());
  }
  return exported;
}

torch::jit::Module frozen(torch::jit::Module module) {
  TORCH_CHECK(
      module.type()->getForwardHooks().empty() && module.type()->getForwardPreHooks().empty(),
      "haloconv::rewrite: expected a model without forward hooks of its own, since freezing drops "
      "them, but it has some");
  Inlining().check_freezing(*module.get_method("forward").graph());
  module.eval();
  return torch::jit::freeze(module);
}

}  // namespace

torch::jit::Module rewrite_own(torch::jit::Module module, const RewriteOptions& options,
                               RewriteReport& report) {
  if (options.freeze) {
    report.dropped = exported_methods(module);
    module = frozen(module);
  }
  const MethodsOf found(module);
  const Methods& methods = found.methods();
  Inlining inlining;
  for (torch::jit::GraphFunction* method : methods) inlining.inline_functions(*method->graph());
  // In a frozen model the casts are nodes already.
  const bool autocast = !options.freeze && found.have(begins_autocast);
  for (torch::jit::GraphFunction* method : methods) {
    rewrite_method(*method, autocast, options, report);
  }
  return module;
}

}  // namespace haloconv
