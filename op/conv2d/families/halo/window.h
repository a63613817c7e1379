// Where the cells of a window come from and go to: index arithmetic, which the host's tests share
// with the load warps.
#pragma once

#include <cstdint>

#include "conv2d/families/halo/arguments.h"

namespace haloconv::halo {

// A window cell, or the first of a pair of neighbours.
struct alignas(kEntryBytes) WindowEntry {
  int32_t source;       // elements from the window's first pixel; outside the source modulo 2^32
  int32_t row, column;  // of the source, from the window's first pixel
  uint16_t image;       // of the window
  uint16_t cell;        // of the stage, or kNoCell
};
static_assert(sizeof(WindowEntry) == kEntryBytes);
inline constexpr uint16_t kNoCell = 0xffff;

// The entry number i, along the source's rows, so that neighbours read neighbours. Beyond the
// window: no cell, but a source that is in the window.
HALOCONV_HOST_DEVICE inline WindowEntry window_entry(const Arguments& args, int32_t i) {
  if (i >= args.entries) return {0, 0, 0, 0, kNoCell};
  const WindowAxis& h = args.h;
  const WindowAxis& w = args.w;
  const int32_t first = args.even ? i * 2 : i;
  const int32_t image = args.image_div.quotient(first);
  const int32_t in_image = first - image * args.image_cells;
  const int32_t row = args.pitch_div.quotient(in_image);
  const int32_t in_row = in_image - row * args.pitch;
  const int32_t column = args.residues_w_div.quotient(in_row);
  const int32_t residue_w = in_row - column * w.residues;
  const int32_t residue_h = args.cells_h_div.quotient(row);
  const int32_t y = (row - residue_h * h.cells) * h.source_step + h.residue[residue_h];
  const int32_t x = column * w.source_step + w.residue[residue_w];
  const int32_t cell = first - in_row + residue_w * w.cells + column;
  const auto source = static_cast<uint32_t>(image * args.source_n) +
                      static_cast<uint32_t>(y) * static_cast<uint32_t>(args.source_h) +
                      static_cast<uint32_t>(x);
  return {static_cast<int32_t>(source), y, x, static_cast<uint16_t>(image),
          static_cast<uint16_t>(cell)};
}

}  // namespace haloconv::halo
