// How a kernel's arguments are worked out, step by step. Each step reads what those before it set,
// so that a planner which tries many plans repeats only what differs between them.
#pragma once

#include <cstdint>

#include "conv2d/families/wgrad/arguments.h"

namespace haloconv::wgrad {

// What no plan changes, of a flattened() problem.
Arguments start_arguments(const Conv2dProblem& problem, bool precise);

// The columns of a block.
void set_columns(const Instance& instance, int mma_channels, int tile_runs, int tile_groups,
                 Arguments& args);
void set_share(Share share, Arguments& args);

// Walks of segments. A walk has every row_step'th row of an image; or a half or a quarter of these,
// if few walks would leave segments of the last strip idle; or as many as a plan says, whose splits
// are then interleaved.
struct Walks {
  int32_t walk_rows = 0, walks_of_rows = 0;
  int32_t whole = 0, short_ones = 0, first_short = kNoWalk;
  int32_t strips = 0;  // 0: they are too many
  // In how many of the two ways in which an image has rows, of row_step, a walk passes its end.
  int32_t restarts = 0;
  bool interleaved = false;
};
Walks make_walks(const Arguments& args, int segment, int walk_rows);

// Segments of so many pixels, each a whole number of vectors, which shift (shifted_segments.h) if
// they may and can; their windows. False: a window is larger than shared memory.
bool set_segment(int segment, bool may_shift, Arguments& args);
// False: there are too many strips.
bool set_walks(const Walks& walks, Arguments& args);
// What splits make of the walks. False: there are too many strips, or 2^31 blocks or more.
bool set_splits(const Walks& walks, int splits, Arguments& args);
// How grad_output lies in a stage. False: the copy engine cannot bring it without much that is not
// used.
bool set_boxes(bool boxes, Arguments& args);
// Where things lie in shared memory. False: they are too many bytes.
bool set_stages(int stages, Arguments& args);

// Bytes of workspace of one partial sum, which neither the stages nor the splits change.
int64_t partial_bytes(const Arguments& args, bool with_bias);

}  // namespace haloconv::wgrad
