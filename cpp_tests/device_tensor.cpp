#include "cpp_tests/device_tensor.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "chip/chip_of_device.h"
#include "cuda/check.h"

namespace haloconv::testing {
namespace {

constexpr int64_t kGuard = 256;  // bytes before and after each buffer
constexpr int kPoison = 0xff;

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

}  // namespace

bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

const Chip& gpu() { return chip_of_device(0); }

Buffer::Buffer(int64_t bytes) : bytes_(bytes) {
  check_cuda(cudaMalloc(&memory_, bytes + 2 * kGuard), "cudaMalloc");
  poison();
}

Buffer::~Buffer() { cudaFree(memory_); }

char* Buffer::data() const { return static_cast<char*>(memory_) + kGuard; }

void Buffer::poison() const {
  check_cuda(cudaMemset(memory_, kPoison, bytes_ + 2 * kGuard), "cudaMemset");
}

bool Buffer::guards_are_whole() const {
  std::array<unsigned char, kGuard> guard;
  for (const char* at : {data() - kGuard, data() + bytes_}) {
    check_cuda(cudaMemcpy(guard.data(), at, kGuard, cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (!std::ranges::all_of(guard, [](unsigned char byte) { return byte == kPoison; })) {
      return false;
    }
  }
  return true;
}

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

namespace {

int64_t elements_of(const std::vector<int64_t>& positions) {
  return positions.empty() ? 0 : *std::max_element(positions.begin(), positions.end()) + 1;
}

}  // namespace

// Memory between the elements keeps its poison.
DeviceTensor::DeviceTensor(std::vector<int64_t> positions, DataType type)
    : positions_(std::move(positions)),
      type_(type),
      buffer_(elements_of(positions_) * size_of(type)) {}

DeviceTensor& DeviceTensor::set(const Values& values) {
  std::vector<char> bytes(elements_of(positions_) * size_of(type_), static_cast<char>(kPoison));
  for (size_t i = 0; i < values.size(); ++i) {
    put(&bytes[positions_[i] * size_of(type_)], values[i], type_);
  }
  check_cuda(cudaMemcpy(data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  return *this;
}

void DeviceTensor::expect(const Values& values, const std::string& what) const {
  std::vector<char> bytes(elements_of(positions_) * size_of(type_));
  check_cuda(cudaMemcpy(bytes.data(), data(), bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = get(&bytes[positions_[i] * size_of(type_)], type_);
    if (std::isnan(value) && std::isnan(values[i])) continue;
    ASSERT_EQ(value, rounded(values[i], type_))
        << what << ", element " << i << " of " << values.size();
  }
  EXPECT_TRUE(buffer_.guards_are_whole()) << what << ": wrote outside its result";
}

}  // namespace haloconv::testing
