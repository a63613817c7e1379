// All that the launch of a plan needs but pointers.
#pragma once

#include <cstdint>
#include <variant>

#include "conv2d/families/depthwise/bands.h"
#include "conv2d/families/depthwise/channels.h"
#include "conv2d/families/depthwise/images.h"
#include "conv2d/families/depthwise/lines.h"
#include "conv2d/families/depthwise/patches.h"
#include "conv2d/families/depthwise/plan.h"
#include "conv2d/families/depthwise/rows.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

struct Lowered {
  // With rows innermost of fprop and dgrad, of wgrad; with channels innermost by patches, by band
  // matrices, down rows, or by eights of images; along lines of fprop and dgrad, of wgrad.
  std::variant<Depthwise, DepthwiseWgrad, Patches, Bands, DepthwiseNhwc, Images, Lines, LinesWgrad>
      shape;
  Gather gather = {};  // of fprop and dgrad
  Wgrad wgrad = {};    // of wgrad
};

// Throws std::logic_error where the kernels do not take the problem.
Lowered lower(const Conv2dProblem& problem, const Plan& plan);

}  // namespace haloconv::depthwise
