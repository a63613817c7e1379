// The filter's way from memory to the warps: fragments.h, ring.h.
//
// The threads of a block load a step's fragments two steps ahead, each the same few units, keep
// them in registers for a step, and store them to the ring, from which all warps read them.
#pragma once

#include "conv2d/families/implicit_gemm/fragments.h"
#include "conv2d/families/implicit_gemm/ring.h"
#include "conv2d/families/implicit_gemm/window_loader.cuh"
#include "cuda/store_unit.cuh"

namespace haloconv::implicit_gemm {

template <class T, int kIndex>
class FilterRing {
  static constexpr Tile kTile = kTiles[kIndex];
  static constexpr int kDepthBytes = ring_depth_bytes(kTile);
  static constexpr int kStepBytes = kStepDepths * kDepthBytes;
  // A thread brings one of each depth.
  static constexpr int kDepthUnits = kDepthBytes / kUnitBytes;
  static_assert(kDepthUnits == kTile.threads() && kRingSteps == 2);

 public:
  // At the phase's first step. `depths` are a chunk's.
  __device__ __forceinline__ FilterRing(const Arguments& args, const PatchPosition& at,
                                        uint32_t ring, int32_t depths, int32_t lane)
      : depth_bytes_(depth_fragments(args, kTile.channels) * kFragmentBytes),
        last_bytes_(depths % kStepDepths == 0 ? kStepDepths * depth_bytes_ : depth_bytes_),
        steps_((depths + 1) / kStepDepths) {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    const int64_t element = at.group * args.filter_group + args.phases[at.phase].packed_offset;
    from_ = static_cast<const char*>(args.filter) + element * static_cast<int64_t>(sizeof(T)) +
            at.channel / kFragmentChannels * kFragmentBytes + thread * kUnitBytes;
    to_ = ring + thread * kUnitBytes;
    to_sum_ = 2 * to_ + kStepBytes;
    at_ = ring + lane * kUnitBytes;
    at_sum_ = 2 * at_ + kStepBytes;
  }

  // From memory to registers. A chunk's last step may have but one depth.
  __device__ __forceinline__ void fetch() {
#pragma unroll
    for (int i = 0; i < kStepDepths; ++i) {
      asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words_[i][0]), "=r"(words_[i][1]), "=r"(words_[i][2]), "=r"(words_[i][3])
                   : "l"(from_ + i * int64_t{depth_bytes_}));
    }
    ++step_;
    const bool is_last = step_ == steps_;
    from_ += is_last ? last_bytes_ : kStepDepths * depth_bytes_;
    step_ = is_last ? 0 : step_;
  }

  // And on to the step of the ring that nobody reads.
  __device__ __forceinline__ void store() {
#pragma unroll
    for (int i = 0; i < kStepDepths; ++i) store_unit(to_ + i * kDepthBytes, words_[i]);
    to_ = to_sum_ - to_;
  }

  // The fragment of that number, in a depth of the step.
  __device__ __forceinline__ void load(int depth, int number, uint32_t (&words)[4]) const {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(at_ + depth * kDepthBytes + number * kFragmentBytes)
                 : "memory");
  }

  // To the next step.
  __device__ __forceinline__ void advance() { at_ = at_sum_ - at_; }

 private:
  const char* from_;
  uint32_t to_, to_sum_, at_, at_sum_;
  int32_t depth_bytes_, last_bytes_, steps_, step_ = 0;
  uint32_t words_[kStepDepths][4];
};

}  // namespace haloconv::implicit_gemm
