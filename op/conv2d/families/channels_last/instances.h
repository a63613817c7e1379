// Declares the kernels' launches, which are compiled in a file for each tile.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/channels_last/arguments.h"
#include "conv2d/families/channels_last/tensor_maps.h"
#include "conv2d/families/channels_last/windows.h"

namespace haloconv::sm90::channels_last {

// Writes dgrad's filter of float32, (k, r, s, c) by its strides, as (c, r, s, k), rounded to TF32.
void launch_transpose_filter(const Conv2dProblem& problem, const float* filter, float* transposed,
                             cudaStream_t stream);

// What else than its tile chooses a kernel.
struct Instance {
  DataType type;
  bool dgrad;
  Epilogue epilogue;
};

template <Tile kTile>
void launch_tile(const Instance& instance, const Arguments& args, const TensorMaps& maps,
                 int multiprocessors, cudaStream_t stream);

template <Tile kTile>
void launch_alternating(const Instance& instance, const Arguments& args, const TensorMaps& maps,
                        bool copies_results, int multiprocessors, cudaStream_t stream);

template <Tile kTile>
void launch_alternating_windows(const Instance& instance, const WindowLaunch& launch,
                                const WindowMaps& maps, int multiprocessors, cudaStream_t stream);

template <Tile kTile>
void launch_windows(const Instance& instance, const WindowLaunch& launch, const WindowMaps& maps,
                    int multiprocessors, cudaStream_t stream);

}  // namespace haloconv::sm90::channels_last
