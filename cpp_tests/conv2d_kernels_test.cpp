// Every kernel that the planner can return, on every edge shape, type and layout: exact on small
// integers, every element written, nothing outside touched. Needs a GPU, not torch.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>

#include "conv2d/conv2d.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"
#include "cuda_check.h"

namespace haloconv::testing {
namespace {

bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

Device device() {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return {.compute_capability = properties.major * 10 + properties.minor,
          .multiprocessors = properties.multiProcessorCount};
}

constexpr int64_t kGuard = 256;  // bytes before and after each buffer
constexpr int kPoison = 0xff;    // NaN in every floating-point type

// Device memory between guards, all of it poisoned.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : bytes_(bytes) {
    check_cuda(cudaMalloc(&memory_, bytes + 2 * kGuard), "cudaMalloc");
    check_cuda(cudaMemset(memory_, kPoison, bytes + 2 * kGuard), "cudaMemset");
  }
  ~Buffer() { cudaFree(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  char* data() const { return static_cast<char*>(memory_) + kGuard; }

  bool guards_are_whole() const {
    std::vector<unsigned char> all(bytes_ + 2 * kGuard);
    check_cuda(cudaMemcpy(all.data(), memory_, all.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (int64_t i = 0; i < kGuard; ++i) {
      if (all[i] != kPoison || all[all.size() - 1 - i] != kPoison) return false;
    }
    return true;
  }

 private:
  int64_t bytes_;
  void* memory_ = nullptr;
};

double rounded(double value, DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return __half2float(__float2half(static_cast<float>(value)));
    case DataType::kBFloat16:
      return __bfloat162float(__float2bfloat16(static_cast<float>(value)));
    default:
      return value;
  }
}

void put(char* at, double value, DataType type) {
  const float single = static_cast<float>(value);
  const __half half = __float2half(single);
  const __nv_bfloat16 bfloat = __float2bfloat16(single);
  const void* from = type == DataType::kFloat64   ? static_cast<const void*>(&value)
                     : type == DataType::kFloat32 ? static_cast<const void*>(&single)
                     : type == DataType::kFloat16 ? static_cast<const void*>(&half)
                                                  : static_cast<const void*>(&bfloat);
  std::memcpy(at, from, size_of(type));
}

double get(const char* at, DataType type) {
  double value;
  float single;
  __half half;
  __nv_bfloat16 bfloat;
  switch (type) {
    case DataType::kFloat64:
      return std::memcpy(&value, at, sizeof(value)), value;
    case DataType::kFloat32:
      return std::memcpy(&single, at, sizeof(single)), single;
    case DataType::kFloat16:
      return std::memcpy(&half, at, sizeof(half)), __half2float(half);
    default:
      return std::memcpy(&bfloat, at, sizeof(bfloat)), __bfloat162float(bfloat);
  }
}

// Position in memory of each element of a dense (a, b, c, d) tensor.
std::vector<int64_t> positions(const Strides& strides, int64_t a, int64_t b, int64_t c, int64_t d) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < a; ++i) {
    for (int64_t j = 0; j < b; ++j) {
      for (int64_t k = 0; k < c; ++k) {
        for (int64_t l = 0; l < d; ++l) {
          result.push_back(i * strides.n + j * strides.c + k * strides.h + l * strides.w);
        }
      }
    }
  }
  return result;
}

// A tensor on the device, and how its elements lie there.
class Tensor {
 public:
  Tensor(std::vector<int64_t> positions, DataType type)
      : positions_(std::move(positions)),
        type_(type),
        buffer_(static_cast<int64_t>(positions_.size()) * size_of(type)) {}

  Tensor& set(const Values& values) {
    std::vector<char> bytes(positions_.size() * size_of(type_));
    for (size_t i = 0; i < values.size(); ++i) {
      put(&bytes[positions_[i] * size_of(type_)], values[i], type_);
    }
    check_cuda(cudaMemcpy(data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
               "cudaMemcpy");
    return *this;
  }

  void expect(const Values& values, const std::string& what) const {
    std::vector<char> bytes(positions_.size() * size_of(type_));
    check_cuda(cudaMemcpy(bytes.data(), data(), bytes.size(), cudaMemcpyDeviceToHost),
               "cudaMemcpy");
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(get(&bytes[positions_[i] * size_of(type_)], type_), rounded(values[i], type_))
          << what << ", element " << i << " of " << values.size();
    }
    EXPECT_TRUE(buffer_.guards_are_whole()) << what << ": wrote outside its result";
  }

  char* data() const { return buffer_.data(); }

 private:
  std::vector<int64_t> positions_;
  DataType type_;
  Buffer buffer_;
};

struct Operands {
  Values input, filter, bias, grad_output;
};

void check_kernel(const Conv2dProblem& p, const Operands& values, Direction direction,
                  Kernel kernel, const Values& expected, const Values& expected_bias) {
  const Conv2dPlan plan = plan_generic(p, direction, device(), true, kernel);
  std::ostringstream what;
  what << p << " | " << plan;
  Tensor input(positions(p.input, p.n, p.c, p.h, p.w), p.type);
  Tensor filter(positions(p.filter, p.k, p.group_c(), p.r, p.s), p.type);
  Tensor output(positions(p.output, p.n, p.k, p.p(), p.q()), p.type);
  Tensor bias(positions({1, 1, 1, 1}, p.k, 1, 1, 1), p.type);
  Buffer workspace(plan.workspace_bytes);
  switch (direction) {
    case Direction::kFprop:
      conv2d_fprop(p, plan, input.set(values.input).data(), filter.set(values.filter).data(),
                   bias.set(values.bias).data(), output.data(), workspace.data(), nullptr);
      output.expect(expected, what.str());
      break;
    case Direction::kDgrad:
      conv2d_dgrad(p, plan, output.set(values.grad_output).data(), filter.set(values.filter).data(),
                   input.data(), workspace.data(), nullptr);
      input.expect(expected, what.str());
      break;
    case Direction::kWgrad:
      conv2d_wgrad(p, plan, output.set(values.grad_output).data(), input.set(values.input).data(),
                   filter.data(), bias.data(), workspace.data(), nullptr);
      filter.expect(expected, what.str());
      bias.expect(expected_bias, what.str() + " bias");
      break;
  }
  EXPECT_TRUE(workspace.guards_are_whole()) << what.str() << ": wrote outside its workspace";
}

class Kernels : public ::testing::TestWithParam<Shape> {};

TEST_P(Kernels, AreExactOnSmallIntegers) {
  if (!has_gpu()) GTEST_SKIP() << "needs a GPU";
  Conv2dProblem p = GetParam().problem;
  const Operands values = {small_integers(input_count(p), 1), small_integers(filter_count(p), 2),
                           small_integers(p.k, 3), small_integers(output_count(p), 4)};
  const Values output = reference_fprop(p, values.input, values.filter, values.bias);
  const Values grad_input = reference_dgrad(p, values.grad_output, values.filter);
  const Values grad_filter = reference_wgrad(p, values.grad_output, values.input);
  const Values grad_bias = reference_bias_grad(p, values.grad_output);
  for (const DataType type :
       {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBFloat16}) {
    p.type = type;
    for (const bool channels_last : {false, true}) {
      p.set_dense_strides(channels_last);
      for (const Kernel kernel : kAllKernels) {
        check_kernel(p, values, Direction::kFprop, kernel, output, {});
        check_kernel(p, values, Direction::kDgrad, kernel, grad_input, {});
        check_kernel(p, values, Direction::kWgrad, kernel, grad_filter, grad_bias);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Edges, Kernels, ::testing::ValuesIn(load_shapes("edges")), name_of_shape);

}  // namespace
}  // namespace haloconv::testing
