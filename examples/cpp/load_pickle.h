#pragma once

#include <torch/serialize.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

// What torch.save wrote.
inline at::IValue load_pickle(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "cannot open ", path);
  return torch::pickle_load(std::vector<char>(std::istreambuf_iterator<char>(file), {}));
}
