// The launch of a tile whose results the copy engine writes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "conv2d/families/halo/arguments.h"

namespace haloconv::halo {

// Whether the engine can write results that begin there: of pieces of one row, pairs of pixels must
// be whole words.
template <class T>
bool copies_to(const Tile& tile, const T* destination) {
  return reinterpret_cast<uintptr_t>(destination) % (copies_lines(tile) ? 2 * sizeof(T) : 16) == 0;
}

// The same tile, or the nearest, that its math warps write themselves.
Tile written_by_warps(const Tile& tile);

template <class T>
void launch_copied(const Tile& tile, const Arguments& args, unsigned blocks, cudaStream_t stream);

}  // namespace haloconv::halo
