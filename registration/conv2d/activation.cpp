#include "registration/conv2d/activation.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <string>
#include <vector>

#include "registration/conv2d/activation_table.h"

namespace haloconv {
namespace {

const ActivationEntry& entry_of(std::string_view name, const char* op) {
  for (const ActivationEntry& entry : activation_table()) {
    if (entry.name == name) return entry;
  }
  std::string names;
  for (const ActivationEntry& entry : activation_table()) {
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  TORCH_CHECK(false, op, ": expected activation to be one of ", names, ", but got \"", name, "\"");
}

const ActivationEntry& entry_of(const Activation& activation) {
  return *std::ranges::find(activation_table(), activation.kind,
                            [](const ActivationEntry& entry) { return entry.standard.kind; });
}

// "(min, max)", or "nothing".
std::string arguments_of(const ActivationEntry& entry) {
  const auto& [first, second] = entry.arguments;
  if (first.empty()) return "nothing";
  return second.empty() ? c10::str("(", first, ")") : c10::str("(", first, ", ", second, ")");
}

}  // namespace

Activation check_activation(std::string_view name, at::ArrayRef<double> arguments, const char* op) {
  const ActivationEntry& entry = entry_of(name, op);
  Activation activation = entry.standard;
  if (arguments.empty() && !entry.required) return activation;
  const size_t count = entry.argument_count();
  TORCH_CHECK(arguments.size() == count, op, ": expected activation_arguments to hold ",
              arguments_of(entry), " for activation=\"", name, "\", but got ", arguments);
  if (count > 0) activation.a = arguments[0];
  if (count > 1) {
    activation.b = arguments[1];
    TORCH_CHECK(activation.a <= activation.b, op, ": expected activation_arguments to hold ",
                arguments_of(entry), " with ", entry.arguments[0], " <= ", entry.arguments[1],
                " for activation=\"", name, "\", but got ", arguments);
  }
  return activation;
}

at::Tensor activate(const Activation& activation, const at::Tensor& x) {
  return entry_of(activation).forward(x, activation.a, activation.b);
}

void activate_in_place(const Activation& activation, const at::Tensor& x) {
  at::Tensor result = x;
  entry_of(activation).in_place(result, activation.a, activation.b);
}

bool derives_from_result(const Activation& activation) {
  const DerivesFrom from = entry_of(activation).derives_from;
  return from == DerivesFrom::kResult || (from == DerivesFrom::kEither && activation.a >= 0);
}

at::Tensor activate_backward(const Activation& activation, const at::Tensor& grad,
                             const at::Tensor& known) {
  return entry_of(activation)
      .backward({.grad = grad,
                 .known = known,
                 .a = activation.a,
                 .b = activation.b,
                 .is_result = derives_from_result(activation),
                 .differentiable = at::GradMode::is_enabled()});
}

c10::Dict<std::string, ActivationRow> activations_by_name() {
  c10::Dict<std::string, ActivationRow> rows;  // keeps its order
  for (const ActivationEntry& entry : activation_table()) {
    const size_t count = entry.argument_count();
    const std::vector<std::string> names(entry.arguments.begin(), entry.arguments.begin() + count);
    std::vector<double> defaults = {entry.standard.a, entry.standard.b};
    defaults.resize(entry.required ? 0 : count);
    rows.insert(std::string(entry.name),
                ActivationRow(entry.aten, entry.approximate, names, defaults));
  }
  return rows;
}

}  // namespace haloconv
