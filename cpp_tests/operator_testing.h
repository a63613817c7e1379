// What the tests of the operators share: devices, implementations, tensors of a shape.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"
#include "registration/conv2d.h"

namespace haloconv::testing {

// A device and an implementation that can be forced on it.
struct Target {
  at::Device device;
  std::string implementation;
};

// "aten" on the CPU; with a GPU, there those that decline little: sm90 has tests of its own.
std::vector<Target> cpu_targets();
std::vector<Target> gpu_targets();  // empty without a GPU

enum class Layout { kContiguous, kChannelsLast, kSliced };
inline constexpr Layout kAllLayouts[] = {Layout::kContiguous, Layout::kChannelsLast,
                                         Layout::kSliced};

// A float32 tensor of these values; kSliced is part of a larger one whose rest is NaN, its rows at
// an odd pitch.
at::Tensor make_tensor(const Values& values, at::IntArrayRef size, Layout layout,
                       at::Device device);

// Exact for our own kernels and on the CPU. ATen on a GPU may transform (Winograd, FFT), whose
// fractions TF32 rounds to 2^-11: anything near 1e-3 of the norm, where a wrong index gives near 1.
void expect_result(const at::Tensor& result, const Values& expected, const Target& target,
                   const std::string& what);

std::vector<int64_t> padding_of(const Conv2dProblem& problem);
std::vector<int64_t> stride_of(const Conv2dProblem& problem);
std::vector<int64_t> dilation_of(const Conv2dProblem& problem);

// Tensors of one shape, small integers.
struct Tensors {
  Tensors(const Conv2dProblem& problem, Layout layout, at::Device device);
  Values input_values, weight_values, bias_values, grad_values;
  at::Tensor input, weight, bias, grad_output;
};

// Calls body(tensors, target, what) for every layout on every target, its implementation forced.
template <class Body>
void for_each_case(const Shape& shape, const std::vector<Target>& targets, Body body) {
  for (const Layout layout : kAllLayouts) {
    for (const Target& target : targets) {
      const ForceImplementation force(target.implementation);
      body(Tensors(shape.problem, layout, target.device), target,
           shape.name + " layout " + std::to_string(static_cast<int>(layout)));
    }
  }
}

// Tests of one direction: check(shape, targets) on the CPU and, where there is one, on a GPU, for
// every edge shape.
#define HALOCONV_TEST_EDGES(Name, check)                    \
  class Name : public ::testing::TestWithParam<Shape> {};   \
  TEST_P(Name, OnCpu) { check(GetParam(), cpu_targets()); } \
  TEST_P(Name, OnGpu) {                                     \
    if (!at::hasCUDA()) GTEST_SKIP() << "needs a GPU";      \
    check(GetParam(), gpu_targets());                       \
  }                                                         \
  INSTANTIATE_TEST_SUITE_P(Edges, Name, ::testing::ValuesIn(load_shapes("edges")), name_of_shape)

}  // namespace haloconv::testing
