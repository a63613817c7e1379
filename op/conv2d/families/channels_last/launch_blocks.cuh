// Launches of persistent kernels.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "conv2d/families/channels_last/instances.h"
#include "cuda/dependent_launch.cuh"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::sm90::channels_last {

template <int kBlockThreads = kThreads, int kMostShared = kMostSharedBytes, class... Arguments>
void launch_blocks(void (*kernel)(Arguments...), int blocks, int shared_bytes, cudaStream_t stream,
                   const Arguments&... args) {
  allow_shared_bytes(kernel, kMostShared);
  launch_dependent(kernel, static_cast<unsigned>(blocks), kBlockThreads, shared_bytes, stream,
                   "sm90 channels_last", args...);
}

// Calls start.template operator()<T, dgrad, epilogue>() with the instance as constants. Of float32
// there is no dgrad: its filter is transposed before.
template <Tile kTile, class Start>
void with_instance(const Instance& instance, Start start) {
  const auto with_epilogue = [&]<class T, bool kDgrad>() {
    if constexpr (takes_boxes(kTile, kDgrad)) {
      if (instance.epilogue == Epilogue::kInBoxes) {
        return start.template operator()<T, kDgrad, Epilogue::kInBoxes>();
      }
    }
    instance.epilogue == Epilogue::kNone ? start.template operator()<T, kDgrad, Epilogue::kNone>()
                                         : start.template operator()<T, kDgrad, Epilogue::kFused>();
  };
  if constexpr (kTile.element_bytes == 4) {
    with_epilogue.template operator()<float, false>();
  } else {
    const auto with_type = [&]<class T>(T) {
      instance.dgrad ? with_epilogue.template operator()<T, true>()
                     : with_epilogue.template operator()<T, false>();
    };
    if (instance.type == DataType::kFloat16) {
      with_type(__half{});
    } else {
      with_type(__nv_bfloat16{});
    }
  }
}

}  // namespace haloconv::sm90::channels_last
