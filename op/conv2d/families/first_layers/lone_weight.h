// The only weight of dgrad's filter that is not finite.
//
// Multiplied by the zeros beyond grad_output's columns, it would make NaN. So the operand has a one
// of its sign in its place, and the weight's own products are added where grad_output has the
// pixels. The ones' products change no result: where a product of the weight is added, that is NaN
// or infinite with the same sign, and elsewhere the one meets a zero. A zero in the weight's place
// would not do: it would make NaN of an infinity of grad_output.
#pragma once

#include <cstdint>

#include "conv2d/families/first_layers/dgrad_arguments.h"

namespace haloconv::sm90::first_layers {

// Whether there is a loop of rows for it. With 64 channels it would keep 50 words in local memory;
// with 48 it gained 2 %, and finite filters took 3 % longer (convnext_stem).
HALOCONV_HOST_DEVICE constexpr bool dgrad_has_lone_loop(int32_t channels) { return channels < 48; }

struct LoneWeight {
  int32_t place;       // in the operand
  int32_t chunk;       // of grad_output's channels
  uint32_t in_window;  // bytes to what a strip's first position meets, before they are swizzled
  int32_t v;           // the tap column
  uint32_t column;     // of the operand: the tap row and the position's channel
  float value;
};

HALOCONV_HOST_DEVICE inline LoneWeight lone_weight(const DgradArguments& args,
                                                   const DgradShape& shape, const PositionTap& tap,
                                                   int32_t k, float value, int32_t element_bytes) {
  const int32_t chunk = k / args.chunk_channels, in_chunk = k - chunk * args.chunk_channels;
  const int32_t pixel = args.taps_w - 1 - tap.v;
  return {
      .place = dgrad_filter_place(args, shape, tap, k, element_bytes),
      .chunk = chunk,
      .in_window = static_cast<uint32_t>(pixel * args.chunk_channels + in_chunk) * element_bytes,
      .v = tap.v,
      .column = static_cast<uint32_t>(dgrad_column(shape.rows, tap.u, tap.channel)),
      .value = value};
}

// Where a window's element is, by its address without the swizzle.
HALOCONV_HOST_DEVICE inline uint32_t swizzled_in_window(const DgradArguments& args,
                                                        uint32_t address, int32_t element_bytes) {
  return address ^ (address >> 3 & (args.is_narrow(element_bytes) ? 0x30 : 0x70));
}

}  // namespace haloconv::sm90::first_layers
