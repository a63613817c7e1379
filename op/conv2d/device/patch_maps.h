// Tensor maps of the operands of weight gradients with channels innermost, whose boxes are those of
// patches of pixels.
#pragma once

#include <cuda.h>

#include "conv2d/device/pixel_patches.h"

namespace haloconv::sm90 {

struct PatchMaps {
  CUtensorMap grad_output, input;
};

// What a patch meets of the input: channels of a box, and its pixels with the halo of the taps.
struct InputBox {
  int32_t channels, columns, rows;
};

// Boxes of grad_output have 128 bytes of channels or, if its channels are not innermost, of a row,
// and then as many channels. `flat`: all pixels are one row.
PatchMaps make_patch_maps(const Conv2dProblem& problem, const PixelPatches& patches, bool flat,
                          const InputBox& box, const void* grad_output, const void* input);

}  // namespace haloconv::sm90
