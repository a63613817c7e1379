// Models moved to haloconv's operators, from module to module and from file to file. Python's tests
// have more models; these run under the sanitizers too.
#include <gtest/gtest.h>
#include <torch/script.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>

#include "registration/rewrite.h"

namespace haloconv::testing {
namespace {

// Small integers: all sums are exact.
at::Tensor integers(at::IntArrayRef size) { return at::randint(-2, 3, size).to(at::kFloat); }

torch::jit::Module network() {
  torch::manual_seed(0);
  torch::jit::Module module("Network");
  module.register_parameter("weight", integers({4, 3, 3, 3}), false);
  module.register_parameter("up", integers({4, 3, 2, 2}), false);
  module.register_parameter("last", integers({3, 3, 1, 1}), false);
  module.register_buffer("mean", integers({3}));
  module.register_buffer("var", at::full({3}, 0.75));
  module.define(R"(
    def forward(self, x):
        y = torch.relu(torch.conv2d(x, self.weight, None, 1, 1))
        z = torch.conv_transpose2d(y, self.up, None, 2)
        z = torch.batch_norm(z, None, None, self.mean, self.var, False, 0.1, 0.25, False)
        return torch.clamp(torch.conv2d(z, self.last) + z, -100, 100)
  )");
  module.eval();
  return module;
}

std::string text_of(const RewriteReport& report) {
  std::ostringstream text;
  text << report;
  return text.str();
}

TEST(Rewrite, WhatFollowsBecomesPart) {
  torch::jit::Module module = network();
  const at::Tensor x = integers({2, 3, 7, 6});
  const at::Tensor expected = module.forward({x}).toTensor();
  for (const bool freeze : {false, true}) {
    RewriteReport report;
    torch::jit::Module rewritten = rewrite(module, {.freeze = freeze}, &report);
    EXPECT_EQ(report.replaced.size(), 3) << text_of(report);
    EXPECT_TRUE(report.left.empty()) << text_of(report);
    ASSERT_EQ(report.fused.size(), 3) << text_of(report);
    EXPECT_EQ(report.fused[0].what, "relu");
    EXPECT_EQ(report.fused[1].what, "");
    EXPECT_EQ(report.fused[2].what, "add, clamp");
    EXPECT_TRUE(at::equal(rewritten.forward({x}).toTensor(), expected)) << text_of(report);
  }
}

TEST(Rewrite, FilesThatAreNoModelsAreErrors) {
  const std::string folder = ::testing::TempDir(), input = folder + "haloconv_rewrite_in.pt",
                    output = folder + "haloconv_rewrite_out.pt";
  std::stringstream saved;
  network().save(saved);
  const std::string whole = saved.str();
  const auto write = [&](const std::string& bytes) {
    std::ofstream(input, std::ios::binary) << bytes;
  };
  write(whole);
  EXPECT_EQ(rewrite_file(input, output).replaced.size(), 3);
  EXPECT_EQ(std::remove(output.c_str()), 0);

  std::vector<std::string> broken = {"", "PK", whole.substr(0, whole.size() / 2),
                                     whole.substr(whole.size() / 2)};
  std::mt19937 random;
  for (int i = 0; i < 20; ++i) {
    std::string other = whole;
    for (int j = 0; j < 300; ++j) other[random() % other.size()] = static_cast<char>(random());
    broken.push_back(std::move(other));
  }
  for (const std::string& bytes : broken) {
    write(bytes);
    EXPECT_THROW(rewrite_file(input, output), c10::Error);
    EXPECT_FALSE(std::ifstream(output).is_open());
  }
  std::remove(input.c_str());
}

}  // namespace
}  // namespace haloconv::testing
