#include "conv2d/families/halo/zero_arguments.h"

#include "conv2d/geometry/geometry.h"

namespace haloconv::halo {

std::optional<ZeroArguments> make_zero_arguments(const Conv2dProblem& problem,
                                                 Direction direction) {
  const Gather gather = make_gather(problem, direction);
  ZeroArguments args{};
  bool any = false;
  for (const AxisPhase& phase : make_row_phases(problem, direction)) {
    if (phase.taps > 0) args.tapped_h |= 1u << phase.first_pixel;
    any = any || phase.taps == 0;
  }
  for (const AxisPhase& phase : make_column_phases(problem, direction)) {
    if (phase.taps > 0) args.tapped_w |= 1u << phase.first_pixel;
    any = any || phase.taps == 0;
  }
  if (!any) return std::nullopt;
  const bool fprop = direction == Direction::kFprop;
  const int64_t h = fprop ? problem.p() : problem.h;
  const int64_t w = fprop ? problem.q() : problem.w;
  args.strides = gather.destination;
  args.channels = gather.groups * gather.rows;
  args.planes = problem.n * args.channels;
  args.pixels = static_cast<int32_t>(h * w);
  args.columns = FastDiv(w);
  args.phases_h = gather.axis_h.pixel_step;
  args.phases_w = gather.axis_w.pixel_step;
  return args;
}

}  // namespace haloconv::halo
