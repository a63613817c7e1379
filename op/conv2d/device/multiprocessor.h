// What a multiprocessor of compute capability 9.0 has.
#pragma once

namespace haloconv::sm90 {

inline constexpr int kMaxShared = 232448;  // bytes of shared memory that a block may have

}  // namespace haloconv::sm90
