// fprop and dgrad of 16-bit tensors, and of float32 in TF32, with channels innermost, on Hopper's
// tensor cores and copy engine.
#include "conv2d/family.h"

#include <utility>

#include "conv2d/families/channels_last/fold.h"
#include "conv2d/families/channels_last/plan.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::channels_last {

void launch(const Plan& plan, const Operands& operands, CUstream_st* stream);  // launch.cpp

namespace {

constexpr int kRepeated = 3;  // bias, scale and shift

// Of one of them, for the next to begin at 16 bytes again.
int64_t repeated_bytes(const Conv2dProblem& folded) {
  return round_up(folded.c * size_of(folded.type), 16);
}

Answer ask(const Request& request) {
  Answer answer{.declined = sm90::channels_last::declines(request.problem, request.direction,
                                                          request.tf32, request.chip)};
  if (!answer.declined.empty()) return answer;
  if (!request.is_aligned) return {.declined = "a tensor does not begin at a multiple of 16 bytes"};
  const int64_t columns = sm90::channels_last::columns_of_fold(request.problem, request.direction);
  const Conv2dProblem problem = sm90::channels_last::folded(request.problem, columns);
  for (sm90::channels_last::Plan& plan :
       sm90::channels_last::make_plans(problem, request.direction, request.chip)) {
    if (answer.plans.size() == request.most_plans) break;
    if (columns > 1) {
      plan.columns = columns;
      plan.repeated_at = round_up(plan.workspace_bytes, 16);
      plan.workspace_bytes = plan.repeated_at + kRepeated * repeated_bytes(problem);
    }
    const sm90::channels_last::Tile tile = plan.tile;
    const auto way = static_cast<int64_t>(plan.launch.index());
    const bool fuses = !plan.is_turned() && !plan.has_staying_filter();
    auto made = std::make_shared<PlanOf<sm90::channels_last::Plan>>(problem, std::move(plan));
    const bool has_rows = sm90::channels_last::writes_rows(problem, request.direction);
    made->takes_bias = made->takes_fusion = !has_rows && fuses;
    made->rounds_to_tf32 = tile.element_bytes == 4;
    const int64_t shape = (int64_t{tile.pixels} * 1024 + tile.channels) * 128 + tile.depth;
    made->kind = (shape * 8 + way) * 2 + (tile.alternates ? 1 : 0);
    answer.plans.push_back(std::move(made));
  }
  if (answer.plans.empty()) answer.declined = "its padding or dilation is too wide";
  return answer;
}

}  // namespace

extern const Family kFamily{
    .name = "channels_last", .group = "sm90", .ask = &ask, .launch = HALOCONV_LAUNCH(launch)};

}  // namespace haloconv::channels_last
