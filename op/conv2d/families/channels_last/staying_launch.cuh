// Starts the kernels of staying.h: each file of instances has those of one tile.
#pragma once

#include <stdexcept>

#include "conv2d/families/channels_last/launch_blocks.cuh"
#include "conv2d/families/channels_last/staying_kernel.cuh"

namespace haloconv::sm90::channels_last {

template <Tile kTile>
void launch_staying(const Instance& instance, const StayingLaunch& staying, const TensorMaps& maps,
                    CUstream_st* stream) {
  const Launch& launch = staying.launch;
  const int bytes = kAlignment +
                    staying.filter_units * static_cast<int>(StayingMemory<kTile>::kStayingUnit) +
                    launch.args.stages * static_cast<int>(StayingMemory<kTile>::kSourceUnit) +
                    (launch.copies_results ? staged_bytes(kTile) : 0);
  const auto start = [&]<class T, bool kDgrad, Epilogue kEpilogue>() {
    if constexpr (kEpilogue == Epilogue::kNone) {
      launch_blocks<threads_of(kTile), kMostAlternatingSharedBytes>(
          staying_kernel<T, kTile.pixels, kTile.channels, kTile.depth, kDgrad>, staying.blocks,
          bytes, stream, launch.args, maps, launch.copies_results);
    } else {
      throw std::logic_error("haloconv: nothing is fused with a filter that stays");
    }
  };
  with_instance<kTile>(instance, start);
}

}  // namespace haloconv::sm90::channels_last
