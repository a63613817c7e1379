#include "conv2d/families/implicit_gemm/team_descents/team_descents.h"

#include <algorithm>

#include "conv2d/families/implicit_gemm/descents/descents.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::implicit_gemm {

namespace {

// Rows of a descent, of so many columns' rows that as many blocks go down. The last round of
// descents takes as long as the others, and each begins with two rows of the source that have no
// results.
int32_t rows_of_team(int64_t columns, int32_t rows, int64_t blocks) {
  constexpr int32_t kLeast = 8, kMost = 48;
  int32_t best = std::min(rows, kLeast);
  int64_t least = INT64_MAX;
  for (int32_t of_one = best; of_one <= std::min(rows, kMost); ++of_one) {
    const int64_t rounds = ceil_div(columns * ceil_div_32(rows, of_one), blocks);
    const int64_t time = rounds * (of_one + 1);
    if (time >= least) continue;
    least = time;
    best = of_one;
  }
  return best;
}

int32_t columns_of(const Arguments& args, int32_t element_bytes) {
  return team_columns(args.phases[0].w.pixels, args.patches[0].columns.divisor, element_bytes);
}

}  // namespace

std::optional<Arguments> make_team_descents(const Arguments& patches, int32_t element_bytes,
                                            const Chip& chip) {
  const Gather& g = patches.geometry;
  const Phase& phase = patches.phases[0];
  const int64_t alike = int64_t{kTeamWarps} * element_bytes * g.destination.c;
  if (patches.phase_count != 1 || phase.pixels == 0 || g.channels > kTeamChannels ||
      !is_descended(phase.h, g.axis_h) || !is_descended(phase.w, g.axis_w) ||
      g.axis_w.pixel_step != 1 || g.destination.w != 1 || g.source.w != 1 ||
      alike % kSectorBytes != 0 || granule_of(g.source, element_bytes, 0) < kWordBytes) {
    return std::nullopt;
  }
  Arguments args = patches;
  args.shifts_rows = false;
  const int64_t images = phase.pixels / phase.plane.divisor;
  const int64_t tiles = int64_t{args.channel_tiles.divisor} * g.groups;
  const int64_t most_blocks = std::max<int64_t>(chip.multiprocessors / tiles, 1);
  // As few teams of a row as have room: square_3x3's forward pass took 4.75, 3.95 and 3.88 ms with
  // 144, 208 and 352 columns on an H200, in bfloat16 3.65, 2.73 and 2.39 with 192, 352 and 1056.
  constexpr int32_t kMostTeams = 64;
  int32_t teams = 1;
  const auto room_for = [&](int32_t of_row) {
    const int32_t columns = team_columns(phase.w.pixels, of_row, element_bytes);
    return TeamMemory(columns, element_bytes).bytes() <= chip.shared_bytes_per_block;
  };
  while (!room_for(teams)) {
    if (++teams > kMostTeams) return std::nullopt;
  }
  Strips& strips = args.strips;
  strips.groups = 1;
  strips.rows = rows_of_team(images * teams, phase.h.pixels, most_blocks);
  args.patches[0] = {FastDiv(ceil_div_32(phase.h.pixels, strips.rows)), FastDiv(teams)};
  const int64_t count = images * teams * args.patches[0].rows.divisor;
  strips.blocks = static_cast<int32_t>(std::min(most_blocks, count));
  if (count > INT32_MAX / 2 || tiles > INT32_MAX / strips.blocks) return std::nullopt;
  args.pixel_tiles = static_cast<uint32_t>(count);
  return args;
}

int32_t team_shared_bytes(const Arguments& args, int32_t element_bytes) {
  return TeamMemory(columns_of(args, element_bytes), element_bytes).bytes();
}

}  // namespace haloconv::implicit_gemm
