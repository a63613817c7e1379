// The highest rates at which a chip does a problem's arithmetic and moves its bytes.
#pragma once

#include "chip/chip.h"
#include "conv2d/problem.h"

namespace haloconv {

// Multiply-adds of a multiprocessor in a cycle, by ordinary instructions; 16-bit types are
// multiplied as float32.
int fma_rate(const Chip& chip, DataType type);

// The same by tensor cores; 0 if they do not take the type. `tf32`: float32 products may be
// rounded.
int matrix_rate(const Chip& chip, DataType type, bool tf32);

// FLOP per second of the faster of the two. Full float32 takes three products of TF32.
double peak_rate(const Chip& chip, DataType type, bool tf32);

// The least milliseconds that a kernel needs: for each tensor's bytes at the rate of a copy, and
// for the arithmetic at the peak, of which Winograd's algorithms need only a part.
double least_ms(const Conv2dProblem& problem, const Chip& chip, bool tf32, double part = 1);

}  // namespace haloconv
