// haloconv-rewrite: moves a saved TorchScript model to haloconv's operators.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <getopt.h>
#include <haloconv/rewrite.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "registration/torch_compat/jit_graphs.h"

namespace {

constexpr const char* kUsage =
    "usage: haloconv-rewrite [--freeze] [--no-fuse] [--check N,C,H,W] IN.pt OUT.pt\n"
    "\n"
    "Writes a copy of the TorchScript model IN.pt whose 2-D and 1-D convolutions, transposed ones\n"
    "too, are haloconv's, and prints which were replaced, and which were left and why, and what\n"
    "became part of them. The copy needs libhaloconv.so where it runs.\n"
    "  --freeze          freeze the model for inference first, and fold batch norm\n"
    "  --no-fuse         leave additions and activations beside the convolutions that they follow\n"
    "  --check N,C,H,W   compare the results of IN.pt's model and of what was written, on a "
    "random\n"
    "                    input of that size, of device and dtype of the model's first tensor of\n"
    "                    floating point, before it becomes OUT.pt\n"
    "Loading a model runs code that is in it: use it for models that you trust.\n"
    "Exit status: 0; 1 where a file cannot be read or written, there is nothing to replace, or "
    "the\n"
    "results differ; 2 for a wrong command line. But for 0, and where the report alone cannot be\n"
    "written, OUT.pt is not.\n";

// Frozen models fold batch norm into weights, which rounds. TF32 rounds more, and 16-bit models
// round after each layer.
double tolerance(caffe2::TypeMeta type) {
  const double step = type == at::kBFloat16 ? 0x1p-7 : type == at::kHalf ? 0x1p-10 : 0;
  return std::max(1e-3, 4 * step);
}

struct CommandLine {
  haloconv::RewriteOptions options;
  std::vector<int64_t> check;
  std::string input, output;
};

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::vector<int64_t> parse_sizes(const std::string& text) {
  std::vector<int64_t> sizes;
  std::istringstream fields(text);
  for (std::string field; std::getline(fields, field, ',');) {
    size_t end = 0;
    try {
      sizes.push_back(std::stoll(field, &end));
    } catch (const std::exception&) {
      end = 0;
    }
    if (end == 0 || end != field.size() || sizes.back() < 1) {
      throw UsageError("expected --check to be sizes like 1,3,224,224, but got \"" + text + '"');
    }
  }
  if (sizes.empty() || text.back() == ',') {
    throw UsageError("expected --check to be sizes like 1,3,224,224, but got \"" + text + '"');
  }
  return sizes;
}

CommandLine parse(int argc, char** argv) {
  const option options[] = {{"freeze", no_argument, nullptr, 'f'},
                            {"no-fuse", no_argument, nullptr, 'n'},
                            {"check", required_argument, nullptr, 'c'},
                            {"help", no_argument, nullptr, 'h'},
                            {}};
  CommandLine line;
  for (int found; (found = getopt_long(argc, argv, "h", options, nullptr)) != -1;) {
    switch (found) {
      case 'f':
        line.options.freeze = true;
        break;
      case 'n':
        line.options.fuse = false;
        break;
      case 'c':
        line.check = parse_sizes(optarg);
        break;
      case 'h':
        std::cout << kUsage;
        std::exit(0);
      default:
        throw UsageError("see haloconv-rewrite --help");
    }
  }
  if (argc - optind != 2) throw UsageError("expected two files, IN.pt and OUT.pt");
  line.input = argv[optind];
  line.output = argv[optind + 1];
  return line;
}

void collect_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    tensors.push_back(value.toTensor());
  } else if (value.isTuple()) {
    for (const auto& element : value.toTuple()->elements()) collect_tensors(element, tensors);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) collect_tensors(element, tensors);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) collect_tensors(entry.value(), tensors);
  }
}

std::vector<at::Tensor> results_of(torch::jit::Module module, const at::Tensor& input) {
  const c10::InferenceMode guard;
  module.eval();
  std::vector<at::Tensor> tensors;
  collect_tensors(module(std::vector<c10::IValue>{input}), tensors);  // with its hooks
  return tensors;
}

// The error in the 2-norm of those elements whose expected value is finite. Infinity if the other
// elements are not the same, or if the size differs.
double relative_difference(const at::Tensor& actual_result, const at::Tensor& expected_result) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (actual_result.sizes() != expected_result.sizes()) return kInfinity;
  const at::Tensor actual = actual_result.to(at::kDouble),
                   expected = expected_result.to(at::kDouble);
  const at::Tensor finite = expected.isfinite(), rest = finite.logical_not();
  const bool alike = at::allclose(actual.masked_fill(finite, 0), expected.masked_fill(finite, 0),
                                  /*rtol=*/0, /*atol=*/0, /*equal_nan=*/true);
  const double norm = expected.masked_fill(rest, 0).norm().item<double>();
  const double difference = (actual - expected).masked_fill(rest, 0).norm().item<double>();
  return alike && std::isfinite(difference) ? difference / std::max(norm, 1e-30) : kInfinity;
}

// Device and dtype of the first floating-point tensor. A frozen module has constants in the place
// of parameters and buffers.
at::TensorOptions options_of(const torch::jit::Module& module) {
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& parameter : module.parameters()) tensors.push_back(parameter);
  for (const at::Tensor& buffer : module.buffers()) tensors.push_back(buffer);
  for (const torch::jit::Node* node : module.get_method("forward").graph()->nodes()) {
    if (node->kind() != c10::prim::Constant) continue;
    const auto constant = torch::jit::toIValue(node->output());
    if (constant && constant->isTensor()) tensors.push_back(constant->toTensor());
  }
  for (const at::Tensor& tensor : tensors) {
    if (tensor.is_floating_point() || tensor.is_complex()) {
      return at::TensorOptions(tensor.device()).dtype(tensor.dtype());
    }
  }
  return {};
}

// Throws if a result of the file that was written differs from the original's.
void check(const CommandLine& line, const std::string& written) {
  const torch::jit::Module model = torch::jit::load(line.input);
  const at::TensorOptions options = options_of(model);
  const at::Tensor input = at::randn(line.check, options);
  const std::vector<at::Tensor> expected = results_of(model, input);
  const std::vector<at::Tensor> actual = results_of(torch::jit::load(written), input);
  if (expected.empty() || actual.size() != expected.size()) {
    throw std::runtime_error("expected --check to compare tensors, but the models return " +
                             std::to_string(expected.size()) + " and " +
                             std::to_string(actual.size()));
  }
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, relative_difference(actual[i], expected[i]));
  }
  std::cout << "checked " << expected.size() << " results: largest relative difference " << largest
            << '\n';
  if (largest > tolerance(options.dtype())) {
    throw std::runtime_error("the rewritten model's results differ");
  }
}

// Makes signals that end the program remove its haloconv-*.part. It must be called before other
// threads start, because they inherit the blocked signals. Ignored signals, as by nohup, stay so.
void abandon_files_when_ended() {
  sigset_t blocked, ending;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  sigemptyset(&ending);
  for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
    struct sigaction action;
    sigaction(number, nullptr, &action);
    if (action.sa_handler == SIG_DFL && !sigismember(&blocked, number)) {
      sigaddset(&ending, number);
    }
  }
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  std::thread([ending] {
    int number = 0;
    sigwait(&ending, &number);
    haloconv::abandon_files();
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &ending, nullptr);  // here the program ends, by that signal
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    abandon_files_when_ended();
    const CommandLine line = parse(argc, argv);
    haloconv::Inspection inspect;
    if (!line.check.empty()) inspect = [&](const std::string& written) { check(line, written); };
    std::cout << haloconv::rewrite_file(line.input, line.output, line.options, inspect)
              << std::flush;
    if (!std::cout) throw std::runtime_error("the report cannot be written");
    return 0;
  } catch (const UsageError& error) {
    std::cerr << "haloconv-rewrite: " << error.what() << '\n';
    return 2;
  } catch (const c10::Error& error) {
    std::cerr << "haloconv-rewrite: " << error.what_without_backtrace() << '\n';
  } catch (const std::exception& error) {
    std::cerr << "haloconv-rewrite: " << error.what() << '\n';
  }
  return 1;
}
