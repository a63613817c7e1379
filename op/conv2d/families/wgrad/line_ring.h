// Where input pixels lie in shared memory, and which of them a strip adds.
//
// A cell of 16 bytes holds, for one channel, the same input column of each of the strip's segments:
//
//   cell m of a channel, filter row r and class of taps: input[n, c, y(p, r), x(q + m)] of each
//   segment's n, p and first q
//
//   cell m   | segment 0 | segment 1 | segment 2 | segment 3 |    of float32, rounded to TF32
//
// Step i of the mainloop reads cells m = 2i and 2i + 1; a tap further along the row shifts m, so no
// tap needs a copy. The nesting:
//
//   plane    cells (m, channel) of one group of channels and one class of taps
//   line     the planes of all channel groups and classes: what one filter row reads
//   window   a line for each filter row of the block
//   ring     ring_lines lines; strip by strip the window moves on by line_step lines
//
//     filter row of step t:      0  1  2              line_step = 1, window_lines = 3
//     filter row of step t + 1:     0  1  2           only this last line is loaded anew
//     ring                     | l0 l1 l2 l3 ... |    then it begins again at l0
//
// From a walk's step to its next, filter row r meets what row r + line_step met. The first step of
// a walk loads its whole window. So does a step from which on some of the strip's segments have no
// row in their image: zeros stand for their pixels, and must meet zeros in the lines before, too.
#pragma once

#include "conv2d/families/wgrad/argument_fields.h"

namespace haloconv::wgrad {

// The cell, from its window's first, that the instruction's first column meets in step 0; an idle
// one reads what the block's first one does.
HALOCONV_HOST_DEVICE inline int32_t Arguments::first_cell(const Block& b, int32_t index) const {
  MmaColumns s = mma_columns(b, index);
  if (s.idle) s = mma_columns(b, 0);
  const int32_t in_row = s.run % runs_of_row();
  const int32_t tap_class = in_row / runs_of_class;
  const int32_t tap = in_row % runs_of_class * mma_taps;  // of the class
  return (s.run / runs_of_row() - b.first_row) * line_cells +
         ((s.group - b.first_group) * classes + tap_class) * plane_cells +
         (left_columns + tap * shift_step) * mma_channels;
}

// A cell that may be beyond the ring's end.
HALOCONV_HOST_DEVICE inline int32_t Arguments::in_ring(int32_t cell) const {
  return cell < ring_cells ? cell : cell - ring_cells;
}

// The window of the split's first strip, and the next strip's.
HALOCONV_HOST_DEVICE inline Window Arguments::first_window(int32_t split) const {
  return {step_of(first_strip(split)), 0};
}

HALOCONV_HOST_DEVICE inline void Arguments::advance(Window& window) const {
  if (++window.step == walk_rows) window.step = 0;
  window.cell = in_ring(window.cell + cells_to(window));
}

// Steps since the last one that loaded its whole window.
HALOCONV_HOST_DEVICE inline int32_t Arguments::steps_since_start(int32_t step) const {
  int32_t steps = step;
  for (const int32_t restart : restart_steps) {
    if (step >= restart && step - restart < steps) steps = step - restart;
  }
  return steps;
}

// Whether a step loads its whole window.
HALOCONV_HOST_DEVICE inline bool Arguments::is_start(int32_t step) const {
  return step == 0 || step == restart_steps[0] || step == restart_steps[1];
}

// From the window before.
HALOCONV_HOST_DEVICE inline int32_t Arguments::cells_to(const Window& window) const {
  return is_start(window.step) ? window_cells : fresh_cells;
}

// The first line that a strip adds to the ring; the block's first strip adds all.
HALOCONV_HOST_DEVICE inline int32_t Arguments::first_fresh(const Block& b,
                                                           const Window& window) const {
  return is_start(window.step) || b.rows < line_step ? 0 : b.rows - line_step;
}

HALOCONV_HOST_DEVICE inline bool Arguments::holds_two_windows() const {
  return ring_lines >= 2 * window_lines;
}

// How many strips right before one of this step may still be read while its lines are written.
// Before a whole window it is one, if the ring has that one's lines beside the window, else none.
HALOCONV_HOST_DEVICE inline int32_t Arguments::strips_behind(int32_t step) const {
  const int32_t steps = steps_since_start(step);
  return steps == 0 ? holds_two_windows() : steps < most_behind ? steps : most_behind;
}

}  // namespace haloconv::wgrad
