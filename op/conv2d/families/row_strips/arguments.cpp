#include "conv2d/families/row_strips/arguments.h"

#include <algorithm>

#include "conv2d/geometry/geometry.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/source_rows.h"

namespace haloconv::row_strips {

namespace {

// Whether each row of the source begins at whole 16 bytes, and ends so.
bool fills_vectors(const Conv2dProblem& problem, const Gather& gather, int32_t vector) {
  const auto is_whole = [&](int64_t count, int64_t step) {
    return count == 1 || step % vector == 0;
  };
  return gather.source_w % vector == 0 && is_whole(problem.n, gather.source.n) &&
         is_whole(gather.channels, gather.source.c) && is_whole(gather.source_h, gather.source.h);
}

}  // namespace

std::optional<Arguments> make_arguments(const Conv2dProblem& problem, const Plan& plan) {
  if (problem.stride_h != 1 || problem.stride_w != 1 || problem.groups != 1) return std::nullopt;
  const auto bytes = static_cast<int32_t>(size_of(problem.type));
  const int32_t vector = 16 / bytes;
  const Gather gather = make_gather(problem, plan.direction);
  const Phase phase = make_phases(problem, plan.direction).front();
  if (!fills_vectors(problem, gather, vector)) return std::nullopt;
  if (gather.destination.w != 1 && phase.w.pixels > 1) return std::nullopt;
  Arguments a{};
  set_source_rows(a, gather, phase);
  if (a.rows > kChannels || a.taps_h > kRowTaps || a.taps_w != kColumnTaps) return std::nullopt;

  a.blocks = plan.blocks;
  if (a.blocks > 1 && problem.type != DataType::kFloat32) return std::nullopt;
  const int32_t chunk = kWordRows * 4 / bytes;
  if (a.channels % (chunk * a.blocks) != 0) return std::nullopt;
  a.chunks = a.channels / (chunk * a.blocks);
  if (a.source_c > INT32_MAX / (2 * chunk)) return std::nullopt;  // a chunk's offsets fit 32 bits
  const int64_t weights_bytes = int64_t{a.chunks} * a.taps_w * kStepBytes;
  if (weights_bytes > kMaxShared) return std::nullopt;
  a.weights_bytes = narrow(weights_bytes);

  a.first_window = a.first_column & ~(vector - 1);
  a.offset = a.first_column - a.first_window;
  const int64_t window = kBand + a.offset + (a.taps_w - 1) * int64_t{a.column_step};
  if (window > kMostPitch) return std::nullopt;
  a.vectors = narrow(ceil_div(window, vector));
  a.pitch = narrow(round_up(window - 8, 32)) + 8;
  a.vectors_div = FastDiv(a.vectors);
  a.bands = narrow(ceil_div(a.width, kBand));
  a.images = narrow(problem.n);

  if (!set_items(a, plan.sweeps)) return std::nullopt;

  a.stages = plan.stages;
  a.stage_bytes = kWordRows * a.pitch * 4;
  a.bias_at = a.weights_bytes;
  a.exchange_at = a.bias_at + kChannels * 4;
  a.ring_at = a.exchange_at + (a.blocks > 1 ? kExchangeBytes : 0);
  a.barriers_at = a.ring_at + a.stages * a.stage_bytes;
  return a;
}

int64_t workspace_bytes(const Arguments& args) { return int64_t{args.blocks} * args.weights_bytes; }

int64_t shared_bytes(const Arguments& args) { return int64_t{args.barriers_at} + kBarrierBytes; }

}  // namespace haloconv::row_strips
