// The source by bands: rows of tiles whose rows of the source all blocks bring to the L2 cache at
// about the same time, each a share, before the first of their windows is loaded. Here which block
// brings what, plain arithmetic that is tested without a GPU.
#pragma once

#include <cstdint>

#include "conv2d/families/halo/arguments.h"

namespace haloconv::halo {

// Of tiles of one image, which have all output channels of the problem's one group.
struct BandArguments {
  int32_t lines;  // rows of tiles of a band; 0: no bands
  int32_t ahead;  // a band is brought when a tile so many lines before it is computed
  bool results_leave_first;

  // A tile's row of tiles, those of all images numbered on.
  static HALOCONV_HOST_DEVICE int32_t line_of(const Arguments& args, uint32_t tile) {
    return args.w_tiles_div.quotient(static_cast<int32_t>(tile));
  }
  // Rows of channels that a band has; each is a piece that one lane brings.
  HALOCONV_HOST_DEVICE int32_t pieces(const Arguments& args) const {
    return lines * rows_of_line(args) * args.channels;
  }
  // Rows of the source that a row of tiles meets and the one before it does not.
  static HALOCONV_HOST_DEVICE int32_t rows_of_line(const Arguments& args) {
    return args.h.tile * args.h.source_step;
  }
};

struct SourcePiece {
  int64_t first;  // element of the source; negative: there is none to bring
};

// Number `index` of a band's pieces.
HALOCONV_HOST_DEVICE inline SourcePiece source_piece(const Arguments& args,
                                                     const BandArguments& bands, int32_t band,
                                                     int32_t index) {
  const int32_t rows = BandArguments::rows_of_line(args);
  const int32_t row_of_band = index / args.channels;
  const int32_t channel = index - row_of_band * args.channels;
  const int32_t line = band * bands.lines + row_of_band / rows;
  const int32_t image = args.h_tiles_div.quotient(line);
  const int32_t tile_row = line - image * args.h_tiles_div.divisor;
  const int32_t row = tile_row * rows + args.h.origin + args.h.last - row_of_band % rows;
  if (image >= args.images || row < 0 || row >= args.h.source_size) return {-1};
  return {image * args.source_n + channel * args.source_c + row * int64_t{args.source_h}};
}

}  // namespace haloconv::halo
