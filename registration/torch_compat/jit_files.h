// Files of TorchScript models, as far as torch/script.h does not read and write them.
#pragma once

#include <torch/script.h>

#include <functional>
#include <string>

namespace haloconv {

// The names of what the file holds beside the model, without contents: torch::jit::load reads those
// whose names it is given, and no others. Raises c10::Error if there is no such file.
torch::jit::ExtraFilesMap extra_files_of(const std::string& path);

// Calls write(data, size) for each piece of the file, in order. It must not throw, because it is
// called through C. (Module::save, which has its own stream, ends the process on a full disk.)
void write_module(const torch::jit::Module& module, const torch::jit::ExtraFilesMap& extra_files,
                  const std::function<void(const void* data, size_t size)>& write);

}  // namespace haloconv
