// Starts the kernels of windows whose tiles two warpgroups take turns with: each file of instances
// has those of one tile.
#pragma once

#include "conv2d/families/channels_last/alternating_windows_kernel.cuh"
#include "conv2d/families/channels_last/launch_blocks.cuh"

namespace haloconv::sm90::channels_last {

template <Tile kTile>
void launch_alternating_windows(const Instance& instance, const WindowLaunch& launch,
                                const WindowMaps& maps, int multiprocessors, cudaStream_t stream) {
  const auto start = [&]<class T, bool kDgrad>() {
    launch_blocks(alternating_windows_kernel<T, kTile.pixels, kTile.channels, kTile.depth, kDgrad>,
                  launch.args.grid(multiprocessors), launch.shared_bytes, stream, launch.args,
                  maps);
  };
  const auto with_type = [&]<class T>(T) {
    instance.dgrad ? start.template operator()<T, true>() : start.template operator()<T, false>();
  };
  if (instance.type == DataType::kFloat16) {
    with_type(__half{});
  } else {
    with_type(__nv_bfloat16{});
  }
}

}  // namespace haloconv::sm90::channels_last
