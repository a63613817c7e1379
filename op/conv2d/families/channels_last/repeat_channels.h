// Values of channels, such as a bias, as a folded problem has them: fold.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace haloconv::sm90::channels_last {

// All values, again and again, `times` in all.
void launch_repeat_channels(const void* values, void* repeated, int32_t channels, int32_t times,
                            int64_t element_bytes, cudaStream_t stream);

}  // namespace haloconv::sm90::channels_last
