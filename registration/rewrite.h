// TorchScript models that were made without haloconv, moved to its operators.
//
//   torch::jit::Module model = torch::jit::load("model.pt");  // declared by torch/script.h
//   haloconv::RewriteReport report;
//   model = haloconv::rewrite(model, {.freeze = true}, &report);
//   std::cout << report;
#pragma once

#include <torch/script.h>

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "conv2d.h"

namespace haloconv {

struct RewriteOptions {
  // torch::jit::freeze first, in evaluation mode: attributes become constants, and batch norm and
  // the like are folded into the convolutions before them.
  bool freeze = false;
  // Additions of a tensor and activations after a convolution become part of it
  // (haloconv::conv2d_fused and its like), where each follows as the only use of what it takes.
  // Most do so only in a frozen model: modules that are not inlined return what they compute.
  bool fuse = true;
};

struct RewriteReport {
  struct Convolution {
    std::string where;  // operator, method and source line
    std::string why;    // why it was left, or ""
  };
  struct Fusion {
    std::string where;  // as of the replaced convolution
    std::string what;   // the operators that are now part of it, in order; "": none
    std::string why;    // why the next one is not, or ""
  };
  std::vector<Convolution> replaced, left;
  std::vector<Fusion> fused;  // of each replaced convolution, unless RewriteOptions say not to
  // Methods that forward does not call: a frozen model has none.
  std::vector<std::string> dropped;
};

HALOCONV_API std::ostream& operator<<(std::ostream& os, const RewriteReport& report);

// A copy of the module, with parameters of its own, as saving and loading makes it, whose 2-D and
// 1-D convolutions, transposed ones too (aten::conv2d and its like, aten::convolution,
// aten::_convolution, aten::_convolution_mode), call haloconv's operators. What is quantized, 3-D,
// or of a number of dimensions that is not known, stays, and so do all convolutions of a model with
// a scripted autocast region, unless it is frozen. Submodules, hooks, control flow and attributes
// stay too; scripted functions that hold convolutions are inlined, scripted classes and forks
// rewritten in place. When the model runs, it checks whether an added tensor has the result's size,
// type, device and layout. If so, the addition is part of the convolution; otherwise it runs after
// it. What *report held is replaced. Raises what saving or freezing does, and c10::Error where
// freezing would drop the model's own hooks, or where inlining would make more than 200,000 nodes
// of it.
HALOCONV_API torch::jit::Module rewrite(const torch::jit::Module& module,
                                        const RewriteOptions& options = {},
                                        RewriteReport* report = nullptr);

// Called with the path of a file, which only this process may be able to read by it.
using Inspection = std::function<void(const std::string& path)>;

// rewrite() from one file to another, with the files kept beside the model. OUTPUT appears whole or
// not at all, with the permissions of the one that it replaces; what it links to is written, and
// INPUT is not touched. If the process ends meanwhile, nothing else is left where the file system
// has files without names, as Linux's usual ones do, or after abandon_files(). `inspect` is called
// with the finished file before it takes OUTPUT's place: what it throws is passed on, and OUTPUT
// stays as it was. Returns what it did. Raises c10::Error that names the file where INPUT is no
// TorchScript model, has an operator of a library that is not loaded, or holds nothing to replace,
// where OUTPUT is INPUT or no regular file, or cannot be written. Loading a model runs code that is
// in it: INPUT must be one that you trust.
HALOCONV_API RewriteReport rewrite_file(const std::string& input, const std::string& output,
                                        const RewriteOptions& options = {},
                                        const Inspection& inspect = {});

// For a process that a signal is about to end: removes each haloconv-*.part that it has on a file
// system without nameless files. Whoever is in rewrite_file() then makes no other and does not
// write OUTPUT, but waits for the end. Call it from a thread that waits for the signal (sigwait),
// as haloconv-rewrite does, never from a handler.
HALOCONV_API void abandon_files();

}  // namespace haloconv
