#include "conv2d/conv2d.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <string>

#include "conv2d/families/generic/launch.h"
#include "conv2d/families/halo/launch.h"

namespace haloconv {

namespace {

// Calls body(T{}) with the C++ type of the problem's elements.
template <class Body>
void with_type(DataType type, Body body) {
  switch (type) {
    case DataType::kFloat32:
      return body(float{});
    case DataType::kFloat64:
      return body(double{});
    case DataType::kFloat16:
      return body(__half{});
    case DataType::kBFloat16:
      return body(__nv_bfloat16{});
    case DataType::kOther:
      break;
  }
  throw std::logic_error("haloconv: no kernel has this element type");
}

template <class Plan>
void check_direction(const Plan& plan, Direction direction) {
  if (plan.direction != direction) {
    throw std::logic_error("haloconv: a plan for " + std::string(name_of(plan.direction)) +
                           " was given to " + std::string(name_of(direction)));
  }
}

void gather(const Conv2dProblem& problem, const Conv2dPlan& plan, const void* source,
            const void* filter, const void* bias, const Fusion& fusion, void* destination,
            void* workspace, cudaStream_t stream) {
  with_type(problem.type, [&]<class T>(T) {
    generic::launch_gather<T>(problem, plan, static_cast<const T*>(source),
                              static_cast<const T*>(filter), static_cast<const T*>(bias), fusion,
                              static_cast<T*>(destination), workspace, stream);
  });
}

}  // namespace

void conv2d_fprop(const Conv2dProblem& problem, const Conv2dPlan& plan, const void* input,
                  const void* filter, const void* bias, void* output, void* workspace,
                  cudaStream_t stream) {
  conv2d_fused(problem, plan, input, filter, bias, {}, output, workspace, stream);
}

void conv2d_fused(const Conv2dProblem& problem, const Conv2dPlan& plan, const void* input,
                  const void* filter, const void* bias, const Fusion& fusion, void* output,
                  void* workspace, cudaStream_t stream) {
  check_direction(plan, Direction::kFprop);
  gather(problem, plan, input, filter, bias, fusion, output, workspace, stream);
}

void conv2d_dgrad(const Conv2dProblem& problem, const Conv2dPlan& plan, const void* grad_output,
                  const void* filter, void* grad_input, void* workspace, cudaStream_t stream) {
  check_direction(plan, Direction::kDgrad);
  gather(problem, plan, grad_output, filter, nullptr, {}, grad_input, workspace, stream);
}

void conv2d_fprop(const Conv2dProblem& problem, const sm90::Plan& plan, const void* input,
                  const void* filter, const void* bias, void* output, void* workspace,
                  cudaStream_t stream) {
  conv2d_fused(problem, plan, input, filter, bias, {}, output, workspace, stream);
}

void conv2d_fused(const Conv2dProblem& problem, const sm90::Plan& plan, const void* input,
                  const void* filter, const void* bias, const Fusion& fusion, void* output,
                  void* workspace, cudaStream_t stream) {
  check_direction(plan, Direction::kFprop);
  sm90::launch_gather(problem, plan, input, filter, bias, fusion, output, workspace, stream);
}

void conv2d_dgrad(const Conv2dProblem& problem, const sm90::Plan& plan, const void* grad_output,
                  const void* filter, void* grad_input, void* workspace, cudaStream_t stream) {
  check_direction(plan, Direction::kDgrad);
  sm90::launch_gather(problem, plan, grad_output, filter, nullptr, {}, grad_input, workspace,
                      stream);
}

void conv2d_wgrad(const Conv2dProblem& problem, const Conv2dPlan& plan, const void* grad_output,
                  const void* input, void* grad_filter, void* grad_bias, void* workspace,
                  cudaStream_t stream) {
  check_direction(plan, Direction::kWgrad);
  with_type(problem.type, [&]<class T>(T) {
    generic::launch_wgrad<T>(problem, plan, static_cast<const T*>(grad_output),
                             static_cast<const T*>(input), static_cast<T*>(grad_filter),
                             static_cast<T*>(grad_bias), workspace, stream);
  });
}

void conv2d_wgrad(const Conv2dProblem& problem, const sm90::wgrad::Plan& plan,
                  const void* grad_output, const void* input, void* grad_filter, void* grad_bias,
                  void* workspace, cudaStream_t stream) {
  sm90::launch_wgrad(problem, plan, grad_output, input, grad_filter, grad_bias, workspace, stream);
}

}  // namespace haloconv
