#include "registration/conv2d_select.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>

#include <sstream>

#include "registration/conv2d_force.h"

namespace haloconv {
namespace {

DataType data_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DataType::kFloat32;
    case at::kDouble:
      return DataType::kFloat64;
    case at::kHalf:
      return DataType::kFloat16;
    case at::kBFloat16:
      return DataType::kBFloat16;
    default:
      return DataType::kOther;
  }
}

int64_t number(const c10::SymInt& value) { return value.guard_int(__FILE__, __LINE__); }

void set_strides(Strides& strides, const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  strides = {tensor.stride(0), tensor.stride(1), tensor.stride(2), tensor.stride(3)};
}

}  // namespace

Conv2dProblem make_problem(const Conv2dArguments& args, const at::Tensor& input,
                           const at::Tensor& weight, const at::Tensor& output) {
  Conv2dProblem problem;
  problem.n = number(args.n);
  problem.c = number(args.c);
  problem.h = number(args.h);
  problem.w = number(args.w);
  problem.k = number(args.k);
  problem.r = number(args.r);
  problem.s = number(args.s);
  problem.pad_top = number(args.padding[0]);
  problem.pad_bottom = number(args.padding[1]);
  problem.pad_left = number(args.padding[2]);
  problem.pad_right = number(args.padding[3]);
  problem.stride_h = number(args.stride[0]);
  problem.stride_w = number(args.stride[1]);
  problem.dilation_h = number(args.dilation[0]);
  problem.dilation_w = number(args.dilation[1]);
  problem.groups = number(args.groups);
  problem.type = data_type((input.defined() ? input : output).scalar_type());
  problem.set_dense_strides(args.memory_format == at::MemoryFormat::ChannelsLast);
  set_strides(problem.input, input);
  set_strides(problem.filter, weight);
  set_strides(problem.output, output);
  return problem;
}

Settings current_settings() {
  return {.tf32 = at::globalContext().allowTF32CuDNN(at::Float32Op::CONV),
          .forced = forced_implementation()};
}

Device current_device() {
  const cudaDeviceProp* properties = at::cuda::getCurrentDeviceProperties();
  return {.compute_capability = properties->major * 10 + properties->minor,
          .multiprocessors = properties->multiProcessorCount};
}

Choice select(const Conv2dProblem& problem, Direction direction, bool with_bias) {
  Settings settings = current_settings();
  if (problem.is_empty()) settings.forced.reset();  // nothing is computed: ATen gives the shape
  const Choice choice = choose(problem, direction, current_device(), settings, with_bias);
  if (choice.chosen) return choice;
  for (const Candidate& candidate : choice.candidates) {
    if (candidate.implementation != settings.forced) continue;
    std::ostringstream problem_text;
    problem_text << direction << ' ' << problem;
    TORCH_CHECK(false, "haloconv: the forced implementation, ", name_of(candidate.implementation),
                ", declines ", problem_text.str(), ": ", candidate.declined);
  }
  return choice;
}

}  // namespace haloconv
