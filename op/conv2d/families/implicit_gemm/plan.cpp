#include "conv2d/families/implicit_gemm/plan.h"

#include <algorithm>
#include <ostream>

#include "conv2d/families/implicit_gemm/costs.h"
#include "conv2d/families/implicit_gemm/descents/descents.h"
#include "conv2d/families/implicit_gemm/fragments.h"
#include "conv2d/families/implicit_gemm/interleaved_rows.h"
#include "conv2d/families/implicit_gemm/lowering.h"
#include "conv2d/families/implicit_gemm/strips/strips.h"
#include "conv2d/families/implicit_gemm/team_descents/team_descents.h"
#include "conv2d/fastest_first.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/warp_instruction.h"

namespace haloconv::implicit_gemm {

namespace {

constexpr size_t kMostPlans = 40;  // or hardly more

}  // namespace

std::ostream& operator<<(std::ostream& os, const Plan& plan) {
  os << plan.direction << " tile=" << plan.tile.pixels << 'x' << plan.tile.channels;
  if (const Windows& windows = plan.windows(); windows.count > 0) {
    os << " windows=" << windows.count << 'x' << windows.bytes << " units=" << windows.units();
    if (windows.log_columns == kLogWideColumns) os << " wide";
    if (plan.launches.front().shifts_rows) os << " shifted";
    if (plan.interleaves) os << " interleaves=" << plan.launches.size();
    if (plan.strips) {
      os << (plan.is_of_team       ? " team_descents="
             : plan.has_descents() ? " descents="
                                   : " strips=")
         << plan.strips->strips.rows;
    }
  } else {
    os << " stages=" << plan.stages();
  }
  return os << (plan.access == Access::kElements ? " by_elements" : "")
            << (plan.packs ? " packs" : "") << " workspace=" << plan.workspace_bytes;
}

std::string declines(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                     bool tf32) {
  constexpr int64_t kLeastGroup = 8, kMostReduction = int64_t{1} << 30;
  if (direction == Direction::kWgrad) return "it is a weight gradient";
  if (std::string reason = warp_instruction_decline(problem, direction, chip, tf32);
      !reason.empty()) {
    return reason;
  }
  if (problem.groups > 1 && !has_units(problem) &&
      std::min(problem.group_c(), problem.group_k()) < kLeastGroup) {
    return "a group has fewer than 8 channels";
  }
  const int64_t channels = direction == Direction::kFprop ? problem.group_c() : problem.group_k();
  if (round_up(channels, unit_elements(problem.type)) * problem.r * problem.s > kMostReduction) {
    return "channels, rounded up, times taps are more than 2^30";
  }
  return "";
}

std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool is_aligned) {
  const Access access = has_units(problem) && is_aligned ? Access::kUnits : Access::kElements;
  const bool lies_packed = access == Access::kUnits && filter_lies_packed(problem, direction);
  // The kernels with windows have operands of float32 rounded for them.
  const bool windows_pack = !lies_packed || problem.type == DataType::kFloat32;
  const Lowering lowering(problem, direction);
  const std::vector<InterleavedRows> interleaved =
      access == Access::kElements ? interleaved_rows(problem) : std::vector<InterleavedRows>();
  std::vector<Lowering> interleaved_lowerings;
  for (const InterleavedRows& rows : interleaved) {
    interleaved_lowerings.emplace_back(rows.problem, direction);
  }
  const WarpInstructionModel model(problem, chip);
  std::vector<Plan> plans;
  plans.reserve(kMostPlans);
  const auto add = [&](const Tile& tile, bool packs, std::vector<Arguments> launches,
                       std::shared_ptr<const Arguments> strips = nullptr, bool interleaves = false,
                       bool is_of_team = false) {
    if (launches.empty()) return;
    const int64_t packed = has_fragments(launches.front())
                               ? fragment_elements(launches, tile, problem.type)
                               : packed_elements(launches);
    const int64_t packed_bytes = packs ? packed * size_of(problem.type) : 0;
    const double ms = is_of_team ? team_call_ms(model, problem.type, chip, *strips)
                                 : call_ms(model, problem.type, chip, tile, access, launches,
                                           strips.get(), packed_bytes, /*packs_once=*/interleaves);
    plans.push_back({.direction = direction,
                     .tile = tile,
                     .access = access,
                     .packs = packs,
                     .launches = std::move(launches),
                     .interleaves = interleaves,
                     .strips = std::move(strips),
                     .is_of_team = is_of_team,
                     .workspace_bytes = packed_bytes,
                     .estimated_ms = ms});
  };
  for (const Tile& tile : kTiles) {
    if (access == Access::kUnits ? takes_unit_windows(tile) : takes_windows(tile)) {
      const auto launches_of = [&](const Lowering& of, int log_units, int log_columns) {
        std::vector<Arguments> launches =
            make_window_arguments(of, tile, access, log_units, log_columns, /*shifts_rows=*/true);
        const bool fit = !launches.empty() &&
                         shared_bytes(tile, launches.front()) <= chip.shared_bytes_per_block;
        return fit ? std::move(launches) : std::vector<Arguments>();
      };
      const auto add_interleaved = [&](int log_units, int log_columns) {
        std::vector<Arguments> all;
        for (size_t i = 0; i < interleaved.size(); ++i) {
          std::vector<Arguments> launches =
              launches_of(interleaved_lowerings[i], log_units, log_columns);
          if (launches.empty()) return;
          const InterleavedRows& rows = interleaved[i];
          for (Arguments& args : launches) {
            const bool fprop = direction == Direction::kFprop;
            args.source_offset = fprop ? rows.input_offset : rows.output_offset;
            args.destination_offset = fprop ? rows.output_offset : rows.input_offset;
          }
          all.insert(all.end(), launches.begin(), launches.end());
        }
        add(tile, windows_pack, std::move(all), nullptr, /*interleaves=*/true);
      };
      const auto add_windows = [&](int log_units, int log_columns) {
        if (!interleaved.empty()) add_interleaved(log_units, log_columns);
        std::vector<Arguments> launches = launches_of(lowering, log_units, log_columns);
        if (launches.empty()) return;
        const auto add_walks = [&](const std::optional<Arguments>& walks, bool is_of_team) {
          if (!walks) return;
          add(tile, windows_pack, launches, std::make_shared<Arguments>(*walks),
              /*interleaves=*/false, is_of_team);
        };
        const auto element_bytes = static_cast<int32_t>(size_of(problem.type));
        if (tile == kStripPatch && log_columns == kLogWideColumns) {
          add_walks(make_strips(launches.front(), element_bytes, chip), false);
          add_walks(make_team_descents(launches.front(), element_bytes, chip), true);
        } else if (tile == kDescentPatch && log_columns == kLogWideColumns) {
          add_walks(make_descents(launches.front(), element_bytes, chip), false);
        }
        add(tile, windows_pack, std::move(launches));
      };
      for (const int log_units : {2, 1}) {
        add_windows(log_units, kLogPatchColumns);
        if (access == Access::kElements) add_windows(log_units, kLogWideColumns);
      }
    }
    if (!takes_gathers(tile) || (access == Access::kElements && !takes_elements(tile))) continue;
    const int stages = stages_with_room(chip, blocks_of(tile), kLeastStages, kMostStages,
                                        [&](int count) { return shared_bytes(tile, count); });
    if (stages == 0) continue;
    add(tile, !lies_packed, make_arguments(lowering, tile, stages));
  }
  sort_fastest_first(plans);
  return plans;
}

}  // namespace haloconv::implicit_gemm
