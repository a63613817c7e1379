// What a math warp stages for the copy engine.
#pragma once

namespace haloconv::halo {

inline constexpr int kCopiedChannels = 16;  // channels of a math warp
inline constexpr int kBoxAlignment = 128;   // bytes, of a box in shared memory
inline constexpr int kCopiedAlignment =
    1024;  // the same of a block's and, with a swizzle, of a box

}  // namespace haloconv::halo
