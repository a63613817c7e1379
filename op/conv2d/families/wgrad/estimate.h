// What plans of the weight gradient are expected to take: the cost model, fitted to an H200.
// benchmarks/NOTES.md.
#pragma once

#include <cstdint>

#include "chip/chip.h"
#include "conv2d/families/wgrad/arguments.h"
#include "conv2d/problem.h"

namespace haloconv::wgrad {

// What a block leaves of the multiprocessor's 256 KiB is the L1 cache: 28 KiB, or 92 where it takes
// no more than this.
inline constexpr int64_t kLessShared = int64_t{163} << 10;

// Cycles of a strip, in which a step of both warpgroups takes so many; splits change nothing of it.
double strip_cycles(const Arguments& args, double step_cycles);
// No more than that of any windows and stages.
double least_strip_cycles(const Arguments& args, double step_cycles);

// All kernels, where a strip takes so many cycles; `bytes`: of the problem's tensors.
double estimate_ms(double bytes, int64_t workspace_bytes, const Arguments& args, double strip,
                   const Chip& chip);
// No more than that of any number of splits of so many strips in all.
double least_ms(double bytes, const Arguments& args, int64_t strips, double strip,
                const Chip& chip);

// Whether the kernels are expected to wait for memory.
bool is_bound_by_bytes(double bytes, double estimated_ms, const Chip& chip);

}  // namespace haloconv::wgrad
