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
  // (haloconv::conv2d_fused and its relatives), if each is the only use of the value that it takes.
  // Most become so only in a frozen model: modules that are not inlined return what they compute.
  bool fuse = true;
};

struct RewriteReport {
  struct Convolution {
    std::string where;  // operator, method and source line
    std::string why;    // why it was left, or ""
  };
  struct Fusion {
    std::string where;  // that of the replaced convolution
    std::string what;   // the operators that are now part of it, in order; "": none
    std::string why;    // why the next one is not, or ""
  };
  std::vector<Convolution> replaced, left;
  std::vector<Fusion> fused;  // one for each replaced convolution, if RewriteOptions::fuse is set
  // Methods that forward does not call: a frozen model has none.
  std::vector<std::string> dropped;
};

HALOCONV_API std::ostream& operator<<(std::ostream& os, const RewriteReport& report);

// A copy of the module, with its own parameters, as saving and loading makes it. Its 2-D and 1-D
// convolutions, also transposed ones (aten::conv2d and its relatives, aten::convolution,
// aten::_convolution, aten::_convolution_mode), call haloconv's operators. Convolutions that are
// quantized or 3-D, or whose number of dimensions is not known, stay as they are, and so do all
// convolutions of a model with a scripted autocast region, unless it is frozen. Submodules, hooks,
// control flow and attributes stay. Scripted functions that hold convolutions are inlined; scripted
// classes and forks are rewritten in place. When the model runs, it checks whether an added tensor
// has the result's size, type, device and layout. If so, the addition is part of the convolution;
// otherwise it runs after it. *report is overwritten. Raises what saving or freezing raises, and
// c10::Error if freezing would drop the model's own hooks, or if inlining would give the model more
// than 200,000 nodes.
HALOCONV_API torch::jit::Module rewrite(const torch::jit::Module& module,
                                        const RewriteOptions& options = {},
                                        RewriteReport* report = nullptr);

// Called with the path of a file. Other processes may not be able to read it by that path.
using Inspection = std::function<void(const std::string& path)>;

// rewrite() from one file to another, which keeps the archive's extra files. OUTPUT appears whole
// or not at all, with the permissions of the file that it replaces. If it is a link, the link's
// target is written. INPUT is not touched. If the process ends meanwhile, nothing else is left if
// the file system has files without names, as Linux's usual ones do, or after abandon_files().
// `inspect` is called with the finished file before that takes OUTPUT's place; if it throws, OUTPUT
// stays as it was. Raises c10::Error, which names the file, if INPUT is no TorchScript model, has
// an operator of a library that is not loaded, or holds nothing to replace, and if OUTPUT is INPUT
// or no regular file, or cannot be written. Loading a model runs code that is in it: INPUT must be
// one that you trust.
HALOCONV_API RewriteReport rewrite_file(const std::string& input, const std::string& output,
                                        const RewriteOptions& options = {},
                                        const Inspection& inspect = {});

// For a process that a signal is about to end: removes each haloconv-*.part that it has on a file
// system without nameless files. A thread in rewrite_file() then makes no other and does not write
// OUTPUT, but waits for the end. Call it from a thread that waits for the signal (sigwait), as
// haloconv-rewrite does, never from a handler.
HALOCONV_API void abandon_files();

}  // namespace haloconv
