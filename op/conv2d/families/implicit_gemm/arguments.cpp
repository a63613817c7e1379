#include "conv2d/families/implicit_gemm/arguments.h"

#include <algorithm>

#include "conv2d/geometry/channels_innermost.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::implicit_gemm {

bool has_units(const Conv2dProblem& problem) {
  return lies_in_units(problem, kUnitBytes / size_of(problem.type));
}

bool filter_lies_packed(const Conv2dProblem& problem, Direction direction) {
  const int64_t c = problem.group_c();
  const Strides& filter = problem.filter;
  return direction == Direction::kFprop && filter.c == 1 && (problem.s == 1 || filter.w == c) &&
         (problem.r == 1 || filter.h == problem.s * c) && filter.n == problem.r * problem.s * c;
}

std::vector<Arguments> make_arguments(const Conv2dProblem& problem, Direction direction,
                                      const Tile& tile, int stages) {
  const Gather gather = make_gather(problem, direction);
  std::vector<Phase> phases = make_phases(problem, direction);
  const int32_t unit = unit_elements(problem.type);
  const auto units = static_cast<int32_t>(ceil_div(gather.channels, unit));
  int64_t group_elements = 0;  // of the filter
  for (Phase& phase : phases) {
    phase.reduction = phase.h.taps * phase.w.taps * units * unit;
    phase.packed_offset = group_elements;
    group_elements += int64_t{phase.reduction} * gather.rows;
  }
  // The longest tiles first, so that short ones fill the last wave.
  std::stable_sort(phases.begin(), phases.end(),
                   [](const Phase& a, const Phase& b) { return a.reduction > b.reduction; });
  std::vector<Arguments> launches;
  for (size_t first = 0; first < phases.size(); first += kPhasesOfLaunch) {
    Arguments& args = launches.emplace_back(Arguments{});
    args.geometry = gather;
    args.filter_group = group_elements;
    args.channel_units = FastDiv(units);
    args.channel_tiles = static_cast<uint32_t>(ceil_div(gather.rows, tile.channels));
    args.stages = stages;
    args.phase_count =
        static_cast<int32_t>(std::min<size_t>(kPhasesOfLaunch, phases.size() - first));
    int64_t tiles = 0;
    for (int32_t i = 0; i < args.phase_count; ++i) {
      args.phases[i] = phases[first + i];
      args.phases[i].first_tile = static_cast<int32_t>(tiles);
      tiles += ceil_div(args.phases[i].pixels, tile.pixels);
      if (tiles > INT32_MAX / int64_t{args.channel_tiles} / gather.groups) return {};
    }
    args.pixel_tiles = static_cast<uint32_t>(tiles);
  }
  return launches;
}

int64_t packed_elements(const std::vector<Arguments>& launches) {
  const Arguments& args = launches.front();
  return args.filter_group * args.geometry.groups;
}

}  // namespace haloconv::implicit_gemm
