// What a plan of the weight gradient comes to for one problem: the arguments of its kernels, with
// all their index arithmetic. Plain numbers, made on the host, tested without a GPU.
// argument_fields.h has the drawing of how its parts nest.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/families/wgrad/argument_fields.h"
#include "conv2d/families/wgrad/columns.h"
#include "conv2d/families/wgrad/line_ring.h"
#include "conv2d/families/wgrad/partial_layout.h"
#include "conv2d/families/wgrad/shifted_segments.h"
#include "conv2d/families/wgrad/stage_layout.h"
#include "conv2d/families/wgrad/strips.h"
#include "conv2d/problem.h"

namespace haloconv::wgrad {

// Everything but the pointers, of a flattened() problem; vectors as if pointers were aligned. None
// where a strip and its window are larger than shared memory, or the counts pass 31 bits.
std::optional<Arguments> make_arguments(const Conv2dProblem& problem, const Plan& plan);

int64_t workspace_bytes(const Arguments& args, bool with_bias);
// Bytes of shared memory that these arguments' block needs.
int64_t shared_bytes(const Arguments& args);
// How many stages, kMaxStages at most, a block of so much shared memory may have.
int32_t most_stages(const Arguments& args, int64_t shared);

}  // namespace haloconv::wgrad
