// Launches of persistent kernels.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "conv2d/families/channels_last/instances.h"
#include "cuda/check.h"

namespace haloconv::sm90::channels_last {

template <class... Arguments>
void launch_blocks(void (*kernel)(Arguments...), int blocks, int shared_bytes, cudaStream_t stream,
                   const Arguments&... args) {
  // The same at every call: another thread's launch may come between this and ours.
  constexpr int kMostShared = 224 * 1024;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared),
             "cudaFuncSetAttribute");
  // Blocks may begin before the kernel before has ended; they wait for it themselves.
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check_cuda(cudaLaunchKernelEx(&config, kernel, args...), "sm90 channels_last");
}

// Calls start.template operator()<T, dgrad, fused>() with the instance as constants. Of float32
// there is no dgrad: its filter is transposed before.
template <int kElementBytes, class Start>
void with_instance(const Instance& instance, Start start) {
  if constexpr (kElementBytes == 4) {
    return instance.fused ? start.template operator()<float, false, true>()
                          : start.template operator()<float, false, false>();
  } else {
    const auto with_type = [&]<class T>(T) {
      if (instance.dgrad) {
        instance.fused ? start.template operator()<T, true, true>()
                       : start.template operator()<T, true, false>();
      } else {
        instance.fused ? start.template operator()<T, false, true>()
                       : start.template operator()<T, false, false>();
      }
    };
    if (instance.type == DataType::kFloat16) {
      with_type(__half{});
    } else {
      with_type(__nv_bfloat16{});
    }
  }
}

}  // namespace haloconv::sm90::channels_last
