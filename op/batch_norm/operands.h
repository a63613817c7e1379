// The tensors of batch norm, in device memory: (rows, channels) of a 16-bit type that begin at
// whole 16 bytes, and vectors of channels in float32.
//
//   result = activation((input - mean) * invstd * weight + bias + residual)
#pragma once

#include "batch_norm/plan.h"
#include "conv2d/epilogue/fusion.h"
#include "conv2d/problem.h"

struct CUstream_st;

namespace haloconv::batch_norm {

// Whether there are kernels with that activation.
constexpr bool has_kernels(ActivationKind activation) {
  return activation == ActivationKind::kNone || activation == ActivationKind::kRelu ||
         activation == ActivationKind::kSilu;
}

struct Forward {
  const void* input = nullptr;
  const void* residual = nullptr;  // null: none
  const float* weight = nullptr;   // null: ones
  const float* bias = nullptr;     // null: zeros
  void* result = nullptr;
  float* mean = nullptr;  // results, also where there is no running one
  float* invstd = nullptr;
  float* running_mean = nullptr;  // null: not kept
  float* running_var = nullptr;
  float momentum = 0, eps = 0;
  void* workspace = nullptr;
};

struct Backward {
  const void* gradient = nullptr;         // of the result
  const void* second_gradient = nullptr;  // null: none; added to the first
  const void* input = nullptr;
  const void* residual = nullptr;  // of forward; null: none, or no activation follows
  const float* weight = nullptr;
  const float* bias = nullptr;
  const float* mean = nullptr;
  const float* invstd = nullptr;
  void* grad_input = nullptr;
  void* grad_residual = nullptr;  // null: not wanted; the gradient of what is before the activation
  float* grad_weight = nullptr;
  float* grad_bias = nullptr;
  void* workspace = nullptr;
};

void launch_forward(DataType type, ActivationKind activation, const Plan& plan,
                    const Forward& operands, CUstream_st* stream);

void launch_backward(DataType type, ActivationKind activation, const Plan& plan,
                     const Backward& operands, CUstream_st* stream);

}  // namespace haloconv::batch_norm
