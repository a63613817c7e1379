#include "registration/torch_compat/jit_files.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/export.h>

namespace haloconv {

torch::jit::ExtraFilesMap extra_files_of(const std::string& path) {
  const std::string folder = "extra/";
  caffe2::serialize::PyTorchStreamReader reader(path);
  torch::jit::ExtraFilesMap files;
  for (const std::string& record : reader.getAllRecords()) {
    if (record.starts_with(folder)) files[record.substr(folder.size())];
  }
  return files;
}

void write_module(const torch::jit::Module& module, const torch::jit::ExtraFilesMap& extra_files,
                  const std::function<void(const void* data, size_t size)>& write) {
  const auto writer = [&](const void* data, size_t size) {
    write(data, size);
    return size;
  };
  torch::jit::ExportModule(module, writer, extra_files);
}

}  // namespace haloconv
