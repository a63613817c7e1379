#include "conv2d/families/implicit_gemm/ring.h"

#include <algorithm>

#include "conv2d/families/implicit_gemm/fragments.h"
#include "conv2d/geometry/channels_innermost.h"

namespace haloconv::implicit_gemm {

void add_rings(const Tile& tile, const Chip& chip, std::vector<Arguments>& launches) {
  if (!takes_ring(tile, chip)) return;
  for (Arguments& args : launches) {
    if (!has_fragments(args) || args.windows.log_columns != kLogWideColumns) continue;
    int blocks = blocks_of(tile);
    while (blocks > 1 && shared_bytes(tile, args) > shared_room(chip, blocks)) --blocks;
    int32_t depths = 0;
    for (int32_t i = 0; i < args.phase_count; ++i) {
      depths = std::max(depths, args.windows.depths(args.phases[i].taps.divisor));
    }
    args.ring_bytes = ring_bytes(tile, depths);
    if (shared_bytes(tile, args) > shared_room(chip, blocks)) args.ring_bytes = 0;
  }
}

}  // namespace haloconv::implicit_gemm
