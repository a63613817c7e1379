#include "registration/conv2d/select.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAFunctions.h>

#include <array>
#include <sstream>

#include "chip/chip_of_device.h"
#include "registration/conv2d/force.h"
#include "registration/torch_compat/cudnn.h"
#include "registration/tuning/lru_cache.h"

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

Request make_request(const Conv2dProblem& problem, const Computation& computation) {
  return {.problem = problem,
          .direction = computation.direction,
          .chip = chip_of_device(c10::cuda::current_device()),
          .tf32 = at::globalContext().allowTF32CuDNN(at::Float32Op::CONV),
          .with_bias = computation.with_bias,
          .is_aligned = computation.is_aligned};
}

Choice choose_here(const Request& request, std::string_view forced) {
  const std::string& why = why_no_kernels(c10::cuda::current_device());
  if (why.empty()) return choose(request, forced);
  TORCH_WARN_ONCE("haloconv: torch's own convolutions run: ", why);
  return choose_without_kernels(request, forced, why);
}

namespace {

void check_forced(const Choice& choice, std::string_view forced, const Request& request) {
  if (!choice.candidates.empty()) return;
  std::ostringstream problem, reasons;
  problem << request.direction << ' ' << request.problem;
  for (const Reply& reply : choice.replies) {
    if (forced != reply.name() && (reply.family == nullptr || forced != reply.family->group)) {
      continue;
    }
    reasons << (reasons.tellp() > 0 ? "; " : "") << reply.name() << ": " << reply.answer.declined;
  }
  TORCH_CHECK(false, "haloconv: the forced implementation, ", forced, ", declines ", problem.str(),
              ": ", reasons.str());
}

// All that choose() reads; whether there is a fusion, which is timed with the convolution; and all
// on which ATen's own choice depends.
using Key = std::array<int64_t, 37>;

Key key_of(const Request& request, const Computation& computation, std::string_view forced) {
  const Conv2dProblem& p = request.problem;
  return {p.n,
          p.c,
          p.h,
          p.w,
          p.k,
          p.r,
          p.s,
          p.pad_top,
          p.pad_bottom,
          p.pad_left,
          p.pad_right,
          p.stride_h,
          p.stride_w,
          p.dilation_h,
          p.dilation_w,
          p.groups,
          static_cast<int64_t>(p.type),
          p.input.n,
          p.input.c,
          p.input.h,
          p.input.w,
          p.filter.n,
          p.filter.c,
          p.filter.h,
          p.filter.w,
          p.output.n,
          p.output.c,
          p.output.h,
          p.output.w,
          static_cast<int64_t>(computation.direction),
          computation.with_bias,
          computation.fused,
          computation.is_aligned,
          request.tf32,
          cudnn::settings(),
          reinterpret_cast<int64_t>(forced.data()),
          request.chip.identity()};
}

struct KeyHash {
  // In chains that a processor works on at once: each value waits for the one before in its chain.
  size_t operator()(const Key& key) const {
    constexpr size_t kChains = 4;
    std::array<size_t, kChains> hashes = {};
    for (size_t i = 0; i < key.size(); ++i) {
      size_t& hash = hashes[i % kChains];
      hash = mixed(hash, static_cast<size_t>(key[i]));
    }
    size_t hash = 0;
    for (const size_t each : hashes) hash = mixed(hash, each);
    return hash;
  }

 private:
  static size_t mixed(size_t hash, size_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    return hash ^ (hash >> 32);
  }
};

using Selections = tuning::LruCache<Key, Selection, KeyHash>;

Selections& selections() {
  constexpr size_t kMost = 4096;                   // shapes may never repeat
  static auto* const all = new Selections(kMost);  // never destroyed: calls may come at exit
  return *all;
}

}  // namespace

std::shared_ptr<Selection> select(const Conv2dProblem& problem, const Computation& computation) {
  // Nothing is computed for an empty problem: ATen gives the shape, whatever is forced.
  const std::string_view forced = problem.is_empty() ? std::string_view() : forced_implementation();
  const Request request = make_request(problem, computation);
  return selections().get(key_of(request, computation, forced), [&] {
    std::unique_ptr<Selection> selection(new Selection{
        .request = request, .fused = computation.fused, .choice = choose_here(request, forced)});
    check_forced(selection->choice, forced, request);
    return selection;
  });
}

std::string text_of(const Selection& selection) {
  const Request& request = selection.request;
  std::ostringstream text;
  text << request.direction << ' ' << request.problem;
  if (request.problem.type == DataType::kFloat32 && request.tf32) text << " tf32";
  if (request.with_bias) text << " with_bias";
  if (selection.fused) text << " fused";
  if (!request.is_aligned) text << " unaligned";
  if (!at::globalContext().userEnabledCuDNN()) text << " without_cudnn";
  return text.str();
}

void forget_selections() { selections().clear(); }

std::optional<Candidate> timed_candidate(const Conv2dProblem& problem,
                                         const Computation& computation) {
  const auto known = selections().find(
      key_of(make_request(problem, computation), computation, forced_implementation()));
  const auto fastest = known == nullptr ? std::nullopt : known->fastest.made();
  if (!fastest) return std::nullopt;
  return known->choice.candidates[*fastest];
}

}  // namespace haloconv
