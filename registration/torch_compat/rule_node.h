// A backward node whose gradients are a function of the incoming gradients and of what it keeps, so
// that compiled autograd (torch._dynamo.compiled_autograd) can put that function in a graph.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "registration/conv2d/force.h"
#include "registration/torch_compat/node_pointer.h"

namespace haloconv {

// What a node keeps beside tensors is its Rule, which has
//   kSaved, kEdges              how many tensors go with it, and how many gradients it gives
//   kFunction                   its name in a graph
//   name()                      the node's name
//   needs(wants)                which saved tensors the wanted gradients follow from
//   gradients(incoming, saved, wants)
//   for_each_value(rule, visit) calls visit(value) for each member
template <class Rule>
class RuleNode : public torch::autograd::Node {
 public:
  using Saved = std::array<at::Tensor, Rule::kSaved>;
  using Wants = std::array<bool, Rule::kEdges>;

  static NodePointer<RuleNode> create() { return make_node<RuleNode>(); }

  std::string name() const override { return rule.name(); }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& variable : saved) variable.reset_data();
  }

  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override {
    // An output is unpacked with its node; other tensors need no node.
    for (const auto& variable : saved) args.collect(variable, /*is_output=*/true);
    args.collect(forced_name());
    Rule::for_each_value(rule, [&](const auto& value) { args.collect(plain(value)); });
  }

  torch::autograd::variable_list apply_with_saved(
      const torch::autograd::variable_list& incoming,
      torch::dynamo::autograd::SwapSavedVariables& swap) override {
    for (auto& variable : saved) swap.before(variable);
    Rule::for_each_value(rule, [&](auto& value) { swap.before(plain(value)); });

    const Wants wants = wanted();
    Packed packed;
    packed.add(std::vector<bool>(wants.begin(), wants.end()));
    for (const at::Tensor& tensor : unpacked(wants)) packed.add(tensor);
    packed.add(forced_name());
    Rule::for_each_value(rule, [&](const auto& value) { packed.add(plain(value)); });
    auto gradients = record(incoming, packed, swap.get_py_compiler());

    for (auto& variable : saved) swap.after(variable);
    Rule::for_each_value(rule, [&](auto& value) { swap.after(plain(value)); });
    return gradients;
  }

  Rule rule;
  std::array<torch::autograd::SavedVariable, Rule::kSaved> saved;

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& incoming) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Wants wants = wanted();
    return gradients_of(rule, incoming, unpacked(wants), wants, forced_);
  }

 private:
  std::string forced_name() const { return std::string(name_of_forced(forced_)); }

  // A graph has numbers and no enumerators.
  template <class T>
  static decltype(auto) plain(T& value) {
    if constexpr (std::is_enum_v<T>) {
      return static_cast<int64_t>(value);
    } else {
      return (value);
    }
  }

  struct Packed {
    std::vector<c10::IValue> values;
    std::vector<c10::TypePtr> types;

    template <class T>
    void add(const T& value) {
      using Packer = torch::dynamo::autograd::IValuePacker<T>;
      values.push_back(Packer::pack(value));
      types.push_back(Packer::packed_type());
    }
  };

  Wants wanted() {
    Wants wants;
    for (size_t i = 0; i < wants.size(); ++i) wants[i] = task_should_compute_output(i);
    return wants;
  }

  Saved unpacked(const Wants& wants) {
    const std::array<bool, Rule::kSaved> needs = rule.needs(wants);
    Saved tensors;
    for (size_t i = 0; i < saved.size(); ++i) {
      if (needs[i]) tensors[i] = saved[i].unpack(getptr());
    }
    return tensors;
  }

  static torch::autograd::variable_list gradients_of(const Rule& rule,
                                                     const torch::autograd::variable_list& incoming,
                                                     const Saved& saved, const Wants& wants,
                                                     Forced forced) {
    // Computed in the dtype of the call, as aten's are, wherever backward runs.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const ForceInThread as_recorded(forced);
    return rule.gradients(incoming, saved, wants);
  }

  // From what record() packed.
  static torch::autograd::variable_list gradients_of_packed(
      const torch::autograd::variable_list& incoming, const std::vector<c10::IValue>& values) {
    torch::dynamo::autograd::PackedArgs packed(values);
    const auto list = packed.unpack<std::vector<bool>>();
    Wants wants{};
    std::copy_n(list.begin(), wants.size(), wants.begin());
    Saved saved;
    for (at::Tensor& tensor : saved) tensor = packed.unpack<at::Tensor>();
    const Forced forced = forced_by_name(packed.unpack<std::string>());
    Rule rule;
    Rule::for_each_value(rule, [&](auto& value) {
      using Value = std::remove_reference_t<decltype(value)>;
      value = static_cast<Value>(packed.unpack<std::decay_t<decltype(plain(value))>>());
    });
    return gradients_of(rule, incoming, saved, wants, forced);
  }

  torch::autograd::variable_list record(const torch::autograd::variable_list& incoming,
                                        const Packed& packed, PyObject* compiler) {
    namespace compiled = torch::dynamo::autograd;
    const auto& python = compiled::getPyCompilerInterface();
    static const std::string function =
        python->bind_function(compiler, Rule::kFunction, gradients_of_packed, packed.types);
    using Metadata = std::vector<std::optional<torch::autograd::InputMetadata>>;
    return python->call_function(
        compiler, "apply_functional", function, incoming, packed.values,
        compiled::IValuePacker<Metadata>::pack(compiled::get_input_metadata(next_edges())));
  }

  // What the node was made under.
  const Forced forced_ = forced_implementation();
};

}  // namespace haloconv
