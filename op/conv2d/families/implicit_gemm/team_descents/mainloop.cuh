// A warp's products of a row of the source: team_descents.h.
#pragma once

#include "conv2d/families/implicit_gemm/team_descents/loader.cuh"

namespace haloconv::implicit_gemm {

// Words of a lane's filter, by the source's rows and columns, and depths.
template <class T>
class TeamFilter {
 public:
  static constexpr int kDepths = TeamMemory::units(sizeof(T)) / 2;

  // `filter` is the group's, `channel` the tile's first.
  __device__ __forceinline__ TeamFilter(const Arguments& args, const T* filter, int32_t channel,
                                        int32_t warp, int32_t lane) {
    const Gather& g = args.geometry;
    const Phase& phase = args.phases[0];
#pragma unroll
    for (int row = 0; row < kTeamTaps; ++row) {
      const int32_t y = g.axis_h.shift_step < 0 ? kTeamTaps - 1 - row : row;
      const int64_t r = phase.h.first_tap + int64_t{y} * g.axis_h.tap_step;
#pragma unroll
      for (int column = 0; column < kTeamTaps; ++column) {
        const int32_t x = g.axis_w.shift_step < 0 ? kTeamTaps - 1 - column : column;
        const int64_t s = phase.w.first_tap + int64_t{x} * g.axis_w.tap_step;
        const T* const tap = filter + r * g.filter.h + s * g.filter.w;
#pragma unroll
        for (int depth = 0; depth < kDepths; ++depth) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int32_t to = channel + team_channel(warp, lane / 4 + i % 2 * 8);
            const int32_t from = ((2 * depth + i / 2) * 4 + lane % 4) * kWordElements;
            words[row][column][depth][i] = word(g, tap, to, from);
          }
        }
      }
    }
  }

  uint32_t words[kTeamTaps][kTeamTaps][kDepths][4];

 private:
  static constexpr int kWordElements = kWordBytes / sizeof(T);

  static __device__ __forceinline__ uint32_t word(const Gather& g, const T* tap, int32_t to,
                                                  int32_t from) {
    const T* const at = tap + to * g.filter.n + from * g.filter.c;
    const auto exists = [&](int i) { return to < g.rows && from + i < g.channels; };
    if constexpr (sizeof(T) == 4) {
      return round_to_tf32(exists(0) ? __ldg(at) : 0.0f);
    } else {
      const auto bits = [&](int i) -> uint32_t {
        return exists(i) ? __ldg(reinterpret_cast<const uint16_t*>(at + i * g.filter.c)) : 0;
      };
      return bits(0) | bits(1) << 16;
    }
  }
};

// A row's groups of pixels, from its last to its first. While one is multiplied the results of the
// one before are added up and written.
template <class T>
class TeamProducts {
  static constexpr auto kBytes = static_cast<int32_t>(sizeof(T));
  static constexpr int kDepths = TeamFilter<T>::kDepths;
  static constexpr int kSteps = kTeamTaps * kDepths;  // of a group
  static constexpr int kBlocks = team_blocks(kBytes), kLoads = kBlocks / 2;
  static constexpr int kAhead = 2;  // steps
  static constexpr int kStages = kAhead + 1;
  static_assert(kSteps % kStages == 0);

 public:
  static constexpr int kVector = team_vector(kBytes);

  __device__ __forceinline__ TeamProducts(const TeamFilter<T>& filter, const TeamMemory& memory,
                                          int32_t lane)
      : filter_(filter), memory_(memory), lane_(lane) {}

  // The next group is that whose first pixel has that number in rows.
  __device__ __forceinline__ void begin(const uint32_t (&rows)[kTeamTaps], int32_t first) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int32_t pixel = first + team_pixel(2 * i + lane_ / 16, lane_ % 8, kBytes);
      const uint32_t at =
          lane_ / 8 % 2 * memory_.unit_bytes + team_place(pixel, kBytes) * kUnitBytes;
#pragma unroll
      for (int row = 0; row < kTeamTaps; ++row) at_[row][i] = rows[row] + at;
    }
#pragma unroll
    for (int step = 0; step < kAhead; ++step) load(step);
  }

  // Multiplies a group and goes to the one before it. Among the products it calls add(), which may
  // ask for the last one's results, and then write().
  template <class Add, class Write>
  __device__ __forceinline__ void multiply(Add add, Write write) {
    float sums[kTeamTaps][kBlocks][4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step + kAhead == kSteps) retreat();
      load(step + kAhead);
#pragma unroll
      for (int column = 0; column < kTeamTaps; ++column) {
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          const uint32_t (&words)[4] = pixels_[step % kStages][block / 2];
          const uint32_t two[2] = {words[block % 2 * 2], words[block % 2 * 2 + 1]};
          const uint32_t (&channels)[4] = filter_.words[step / kDepths][column][step % kDepths];
          float (&sum)[4] = sums[column][block];
          if (step == 0) {
            const float zeros[4] = {};
            multiply_add<T>(sum, channels, two, zeros);
          } else if (step + 1 < kSteps) {
            multiply_add<T>(sum, channels, two);
          } else {
            multiply_add<T>(sums_[column][block], channels, two, sum);
          }
        }
      }
      if (step == 0) add();
      if (step == kSteps / 3) write();
    }
  }

  // Of the last group: of each lane kVector neighbours of the channel of row lane / 4, and of that
  // of the row eight further.
  __device__ __forceinline__ void add_up(float (&results)[2][kVector]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto sum = [&](int column, int pixel) {
        return sums_[column][pixel / 2][2 * half + pixel % 2];
      };
      // Of the lane that has the next pixels: the first of the four has those behind the group.
      const auto next = [&](float own, float& behind) {
        const float given = lane_ % 4 == 0 ? behind : own;
        behind = own;
        return __shfl_sync(0xffffffff, given, (lane_ & ~3) | ((lane_ + 1) & 3));
      };
      const float one = next(sum(1, 0), behind_[half][0]), two = next(sum(2, 0), behind_[half][1]),
                  three = next(sum(2, 1), behind_[half][2]);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const float of_one = i + 1 < kVector ? sum(1, i + 1) : one;
        const float of_two = i + 2 < kVector ? sum(2, i + 2) : i + 2 == kVector ? two : three;
        results[half][i] = sum(0, i) + of_one + of_two;
      }
    }
  }

 private:
  __device__ __forceinline__ void retreat() {
#pragma unroll
    for (int row = 0; row < kTeamTaps; ++row) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) at_[row][i] -= team_group(kBytes) * kUnitBytes;
    }
  }
  // Of a step of the group, or behind its last of the next group's.
  __device__ __forceinline__ void load(int step) {
    const int number = step % kSteps;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      load_matrices(at_[number / kDepths][i] + number % kDepths * 2 * memory_.unit_bytes,
                    pixels_[number % kStages][i]);
    }
  }

  const TeamFilter<T>& filter_;
  const TeamMemory& memory_;
  int32_t lane_;
  uint32_t at_[kTeamTaps][kLoads];
  uint32_t pixels_[kStages][kLoads][4];
  float sums_[kTeamTaps][kBlocks][4] = {};  // of the last group
  // Behind it: of each channel the second column's sum of a pixel, and the third's of two.
  float behind_[2][3] = {};
};

}  // namespace haloconv::implicit_gemm
