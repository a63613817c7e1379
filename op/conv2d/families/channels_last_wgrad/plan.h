// How weight gradients of 16-bit types with channels innermost run on Hopper. Pure host functions.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/channels_last_wgrad/layout.h"
#include "conv2d/families/channels_last_wgrad/shared_bytes.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last_wgrad {

struct Plan {
  Layout layout;
  // A cluster's blocks: neighbouring tiles that share the input's boxes, for each part of the
  // pixels; and parts in other clusters.
  int32_t cluster_tiles = 1, cluster_splits = 1, outer_splits = 1;
  int32_t stages = 0;
  bool with_bias = false;
  int64_t workspace_bytes = 0;
  double estimated_ms = 0;

  int32_t cluster_blocks() const { return cluster_tiles * cluster_splits; }
  int32_t splits() const { return cluster_splits * outer_splits; }
  int64_t shared_bytes() const {
    return stages * layout.stage_bytes() + layout.zero_bytes +
           shared_beside_ring(layout.tile.rows());
  }
};

// Why the kernels do not take the problem, or "".
std::string decline(const Conv2dProblem& problem, const Chip& chip);

// Plans for a problem that is not declined, the fastest by the model first: the best of each kind
// of tile, or of each kind and cluster if `every`. None where no tile's boxes fit.
std::vector<Plan> make_plans(const Conv2dProblem& problem, const Chip& chip, bool with_bias,
                             bool every = false);

std::ostream& operator<<(std::ostream& os, const Plan& plan);

}  // namespace haloconv::sm90::channels_last_wgrad
