// The kernel of dgrad_arguments.h: each warpgroup that multiplies has a warp that brings its rows
// of grad_output, by windows of 128 bytes of channels or 64, and transposes them if rows are
// innermost.
#pragma once

#include <cuda/ptx>

#include "conv2d/device/round.cuh"
#include "conv2d/families/first_layers/dgrad_lone_weight.cuh"
#include "conv2d/families/first_layers/dgrad_nonfinite.cuh"
#include "conv2d/families/first_layers/dgrad_results.cuh"
#include "conv2d/families/first_layers/dgrad_transpose.cuh"
#include "conv2d/families/first_layers/operands.h"
#include "cuda/dependent_launch.cuh"
#include "cuda/expect_bytes.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/this_warp.cuh"
#include "cuda/tma.cuh"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_shared.cuh"

namespace haloconv::sm90::first_layers {

template <int kGroups>
inline constexpr int kDgradThreads = kGroups * 160;

template <class T>
__device__ __forceinline__ T rounded_weight(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return __uint_as_float(round_to_tf32(value));
  } else {
    return value;
  }
}

// Zeros in place of the filter as the second operand, by the threads that multiply.
template <int kGroups>
__device__ __forceinline__ void clear_position_filter(const DgradArguments& args,
                                                      unsigned char* to) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < args.filter_bytes / 16;
       i += kGroups * 128) {
    reinterpret_cast<uint4*>(to)[i] = {};
  }
}

// The whole filter as the second operand, in place of zeros, by the threads that multiply.
// `not_finite` is empty before.
template <class T, int kRows, int kChannels, int kGroups>
__device__ __forceinline__ void store_position_filter(const DgradArguments& args, unsigned char* to,
                                                      NotFinite& not_finite) {
  constexpr int kThreads = kGroups * 128;
  constexpr int32_t kBarrier = kGroups + 1;  // beyond the groups' own
  constexpr DgradShape kShape{kRows, kChannels};
  constexpr int kAtOnce = 16;  // elements that are on the way
  const auto thread = static_cast<int32_t>(threadIdx.x);
  // A thread reads the same element of every so many'th of grad_output's channels.
  const int32_t first_k = args.filter_taps.quotient(thread);
  const int32_t first = thread - first_k * args.filter_taps.divisor;
  const int32_t end = first_k < args.filter_step ? args.filter_taps.divisor : 0;
#pragma unroll 1
  for (int32_t i = first; i < end; i += kThreads) {
    const int32_t above_c = args.c.quotient(i), c = i - above_c * args.c.divisor;
    const int32_t r = args.s.quotient(above_c), s = above_c - r * args.s.divisor;
    const PositionTap tap = args.tap(r, s, c);
    const T* from = static_cast<const T*>(args.filter) + first_k * args.filter_k +
                    c * args.filter_c + r * args.filter_r + s * args.filter_s;
    bool all_finite = true;
#pragma unroll 1
    for (int32_t k = first_k; k < args.k; k += kAtOnce * args.filter_step) {
      T values[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        values[j] = k + j * args.filter_step < args.k ? __ldg(from) : T(0.0f);
        from += args.filter_step * args.filter_k;
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int32_t of = k + j * args.filter_step;
        if (of >= args.k) break;
        const T value = rounded_weight(values[j]);
        *reinterpret_cast<T*>(to + dgrad_filter_place(args, kShape, tap, of, sizeof(T))) = value;
        all_finite &= is_finite(value);
      }
    }
    if (!all_finite) not_finite.find<T>(args, kShape, to, tap, first_k);
  }
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  group_barrier_sync<kThreads>(kBarrier);
  if (!dgrad_has_lone_loop(kChannels) || not_finite.count != 1) return;
  if (thread == 0) {
    not_finite.replace<T>(to);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  }
  group_barrier_sync<kThreads>(kBarrier);
}

template <class T>
__device__ __forceinline__ void bring_windows(const DgradArguments& args, const CUtensorMap& map,
                                              uint32_t windows, WindowBarriers& barriers,
                                              int32_t first, int32_t end) {
  const uint32_t bytes = (args.strip_columns + args.taps_w - 1) * args.chunk_channels * sizeof(T);
  RingPosition ring;
  for (int32_t at = first; at < end;) {
    const StripPart part = args.part(at, end);
    const int32_t column = part.column - (args.taps_w - 1);
    const int32_t first_row = args.first_row + part.row - (args.taps_h - 1);
    for (int32_t row = 0; row < part.rows + args.taps_h - 1; ++row) {
      if (!args.has_row(first_row + row)) continue;
      for (int32_t chunk = 0; chunk < args.chunks; ++chunk) {
        uint64_t* const full = &barriers.full[ring.stage];
        mbarrier_wait(&barriers.empty[ring.stage], ring.parity ^ 1);
        expect_bytes(full, bytes);
        copy_box(windows + ring.stage * args.window_bytes, &map, shared_address_of(full),
                 chunk * args.chunk_channels, column, first_row + row, part.image);
        ring.advance(args.windows);
      }
    }
    at += part.rows;
  }
}

// Issues the products of a chunk and a tap: up to kSteps instructions of kN columns, which may be
// the first ones of the sums'.
template <class T, int kN, int kBlocks, int kSteps, int kSums>
__device__ __forceinline__ void multiply_tap(uint64_t a, uint64_t b, int32_t steps,
                                             float (&sums)[kBlocks][kSums]) {
  constexpr int kRowUnits = kSteps * 2;  // of 16 bytes
  const auto multiply = [&](int i) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      wgmma_shared<T, kN, false, false>(reinterpret_cast<float (&)[kN / 2]>(sums[block]),
                                        a + i * 2 + block * (kBlockColumns * kRowUnits), b + i * 2);
    }
  };
  if (steps >= kSteps) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) multiply(i);
  } else {
#pragma unroll 1
    for (int i = 0; i < steps; ++i) multiply(i);
  }
}

template <class T>
__device__ __forceinline__ int32_t dgrad_steps(const DgradArguments& args) {
  constexpr int32_t kDepth = dgrad_depth(sizeof(T));
  return (args.k + kDepth - 1) / kDepth;
}

// A row's chunks in shared memory.
struct RowOperands {
  uint64_t filter;
  uint32_t windows;
  int32_t row_units;  // of a pixel's, or of a filter's column's, by 16 bytes
  bool is_narrow;

  __device__ __forceinline__ RowOperands(const DgradArguments& args, int32_t element_bytes,
                                         uint32_t filter_at, uint32_t windows_at)
      : windows(windows_at), is_narrow(args.is_narrow(element_bytes)) {
    row_units = is_narrow ? 4 : 8;
    filter = operand_at(filter_at);
  }
  __device__ __forceinline__ uint64_t operand_at(uint32_t at) const {
    return is_narrow ? narrow_pixel_operand(at) : pixel_operand(at);
  }
  __device__ __forceinline__ uint64_t window(const DgradArguments& args,
                                             const RingPosition& at) const {
    return operand_at(windows + at.stage * args.window_bytes);
  }
};

// Lets a window be filled again.
__device__ __forceinline__ void release_window(WindowBarriers& barriers, int32_t stage) {
  if (threadIdx.x % 32 == 0) {
    cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                               cuda::ptx::space_shared, &barriers.empty[stage]);
  }
}

// The same for all windows of a row.
__device__ __forceinline__ void release_row(const DgradArguments& args, WindowBarriers& barriers,
                                            RingPosition done) {
  for (int32_t i = 0; i < args.chunks; ++i) {
    release_window(barriers, done.stage);
    done.advance(args.windows);
  }
}

// Adds a row of grad_output's products to the sums, and calls meanwhile() while they are computed.
// Those of the lone weight come last.
template <class T, int kN, int kBlocks, bool kHalves, bool kLone, class Meanwhile>
__device__ __forceinline__ void multiply_row(const DgradArguments& args, const RowOperands& row,
                                             WindowBarriers& barriers, RingPosition& ring,
                                             int32_t first_column, const LoneWeight& lone,
                                             float (&sums)[kBlocks][kN / 2], Meanwhile meanwhile) {
  // In TF32 a row has twice as many windows, and a ring hardly more than a row. Each can be filled
  // again when its own products are computed; only those of the lone weight are read once more.
  constexpr bool kReleasesEarly = std::is_same_v<T, float> && !kLone;
  uint64_t b = row.filter;
  const RingPosition first = ring;
  int32_t before = ring.stage;
  int32_t steps_left = dgrad_steps<T>(args);
  wgmma_fence();
#pragma unroll 1
  do {
    mbarrier_wait(&barriers.full[ring.stage], ring.parity);
    uint64_t a = row.window(args, ring);
    int32_t v = args.taps_w - 1;
    if constexpr (kHalves) {
      if (args.halves()) {
        if (row.is_narrow) {
          multiply_tap<T, kN / 2, kBlocks, 2>(a, b, steps_left, sums);
        } else {
          multiply_tap<T, kN / 2, kBlocks, 4>(a, b, steps_left, sums);
        }
        a += row.row_units;
        b += kN * row.row_units;
        --v;
      }
    }
#pragma unroll 1
    for (; v >= 0; --v) {
      if (row.is_narrow) {
        multiply_tap<T, kN, kBlocks, 2>(a, b, steps_left, sums);
      } else {
        multiply_tap<T, kN, kBlocks, 4>(a, b, steps_left, sums);
      }
      a += row.row_units;
      b += kN * row.row_units;
    }
    steps_left -= row.row_units / 2;
    if constexpr (kReleasesEarly) {
      wgmma_commit();
      if (before != ring.stage) {
        wgmma_wait<1>();
        release_window(barriers, before);
      }
      before = ring.stage;
    }
    ring.advance(args.windows);
  } while (steps_left > 0);
  if constexpr (!kReleasesEarly) wgmma_commit();
  meanwhile();
  if constexpr (kLone) {
    const LoneProducts<T, kN, kBlocks> products(args, lone, row.windows, first, first_column);
    wgmma_wait<0>();
    wgmma_settle(sums);
    products.add_to(sums);
    __syncwarp();  // one lane releases what all have read
  } else {
    wgmma_wait<0>();
    wgmma_settle(sums);
  }
  if constexpr (kReleasesEarly) {
    release_window(barriers, before);
  } else {
    release_row(args, barriers, first);
  }
}

// The same for a filter with more weights that are not finite: tap columns are multiplied one by
// one, and products are added where the filter has taps. Those of the tap columns in `apart` are
// added where grad_output has the pixels. Each loop multiplies at least once: with a product that
// may be left out the compiler would wait after each instruction in the whole kernel.
template <class T, int kN, int kBlocks>
__device__ __forceinline__ void multiply_row_apart(const DgradArguments& args,
                                                   const RowOperands& row, WindowBarriers& barriers,
                                                   RingPosition& ring, int32_t first_column,
                                                   uint32_t apart, float (&sums)[kBlocks][kN / 2]) {
  constexpr int kColumns = kN <= 64 ? kN : 64;  // of the operand, that are multiplied at a time
  const auto thread = static_cast<int32_t>(threadIdx.x) % 128;
  const int32_t column = first_column + thread / 32 * 16 + thread % 32 / 4;
  const RingPosition first = ring;
  uint64_t b = row.filter;
#pragma unroll 1
  for (int32_t left = dgrad_steps<T>(args); left > 0; left -= row.row_units / 2) {
    mbarrier_wait(&barriers.full[ring.stage], ring.parity);
    uint64_t a = row.window(args, ring);
    const int32_t steps = min(left, row.row_units / 2);
#pragma unroll 1
    for (int32_t v = args.taps_w - 1; v >= 0; --v) {
      const bool is_half = args.halves() && v == args.taps_w - 1;
      const bool is_apart = (apart & tap_bit(v)) != 0;
#pragma unroll
      for (int piece = 0; piece < kN / kColumns; ++piece) {
        float products[kBlocks][kColumns / 2] = {};
        wgmma_fence();
#pragma unroll 1
        for (int32_t i = 0; i < steps; ++i) {
#pragma unroll
          for (int block = 0; block < kBlocks; ++block) {
            wgmma_shared<T, kColumns, false, false>(
                products[block], a + i * 2 + block * kBlockColumns * row.row_units,
                b + i * 2 + piece * kColumns * row.row_units);
          }
        }
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(products);
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
          for (int i = 0; i < kColumns / 2; ++i) {
            const int32_t q = column + block * kBlockColumns + i / 2 % 2 * 8 - v;
            const int sum = piece * (kColumns / 2) + i;
            const bool has_tap = sum < kN / 4 || !is_half;
            if (has_tap && (!is_apart || args.has_column(q))) {
              sums[block][sum] += products[block][i];
            }
          }
        }
      }
      a += row.row_units;
      b += kN * row.row_units;
    }
    ring.advance(args.windows);
  }
  release_row(args, barriers, first);
}

// A thread has sums of two channels in each group of eight: a bit for each, whether it has a tap in
// the last row of taps.
template <int kChannels>
__device__ __forceinline__ uint32_t channels_of_last_row(const DgradArguments& args) {
  uint32_t bits = 0;
#pragma unroll 1
  for (int32_t i = 0; i < kChannels / 4; ++i) {
    const int32_t channel = i / 2 * 8 + static_cast<int32_t>(threadIdx.x) % 4 * 2 + i % 2;
    if (args.line_place(channel).rest_h < args.last_rests_h) bits |= 1u << i;
  }
  return bits;
}

// Takes a row's results from the sums, and moves the others up where has_tap(u, i) holds, of the
// tap row that they come from and their place in it. Else the sums begin at 0.
template <int kRows, int kChannels, class HasTap>
__device__ __forceinline__ void move_up(float (&sums)[kRows * kChannels / 2],
                                        float (&results)[kChannels / 2], HasTap has_tap) {
#pragma unroll
  for (int u = 0; u < kRows; ++u) {
#pragma unroll
    for (int i = 0; i < kChannels / 2; ++i) {
      const int at = (i / 4 * kRows + u) * 4 + i % 4;
      if (u == 0) results[i] = sums[at];
      const bool moves = u + 1 < kRows && has_tap(u + 1, i);
      sums[at] = moves ? sums[u + 1 < kRows ? at + 4 : at] : 0.0f;
    }
  }
}

template <int kRows, int kChannels, int kBlocks>
__device__ __forceinline__ void take_results(const DgradArguments& args, uint32_t of_last_row,
                                             float (&sums)[kBlocks][kRows * kChannels / 2],
                                             float (&results)[kBlocks][kChannels / 2]) {
  const auto take = [&](auto has_tap) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      move_up<kRows, kChannels>(sums[block], results[block], has_tap);
    }
  };
  if (args.last_rests_h == args.stride_h.divisor) {
    take([&](int u, int) { return u < args.taps_h; });
  } else {
    take([&](int u, int i) {
      return u < args.taps_h - 1 ||
             (u == args.taps_h - 1 && (of_last_row >> (i / 4 * 2 + i % 2) & 1) != 0);
    });
  }
}

// What a warpgroup that multiplies has in shared memory.
struct GroupMemory {
  RowOperands operands;
  WindowBarriers& barriers;
  unsigned char* staging;
  const NotFinite& not_finite;
  int32_t group;
};

// Of 8 channels a thread has hardly more than one; of 48 the address of a fourth would spill, but
// in float32 there are registers for all six that most threads have.
template <class T, int kChannels, int kBlocks>
inline constexpr int kHeldVectors = kChannels == 8    ? 1
                                    : kChannels == 48 ? (sizeof(T) == 4 ? 6 : 3)
                                    : sizeof(T) == 4  ? 2 * kBlocks
                                                      : kBlocks;

// Computes a warpgroup's rows, from number `first` on, with a finite filter or, if kLone, with one
// that is finite but for a lone weight. Returns whether this thread may have written NaN.
template <class T, int kRows, int kChannels, int kBlocks, bool kLone>
__device__ __forceinline__ bool compute_rows(const DgradArguments& args, const GroupMemory& memory,
                                             int32_t first, int32_t end) {
  constexpr int kN = kRows * kChannels;
  RowWriter<T, kChannels, kBlocks, kHeldVectors<T, kChannels, kBlocks>> writer(args, memory.staging,
                                                                               memory.group);
  const uint32_t of_last_row = channels_of_last_row<kChannels>(args);
  RingPosition ring;
  for (int32_t at = first; at < end;) {
    const StripPart part = args.part(at, end);
    float sums[kBlocks][kN / 2] = {};
    // A row's results, written while the next one's products are made.
    float eldest[kBlocks][kChannels / 2];
    const auto write_before = [&](int32_t row) {
      if (row > 0) writer.write(part, row - 1, eldest);
    };
    const auto take_eldest = [&] {
      take_results<kRows, kChannels, kBlocks>(args, of_last_row, sums, eldest);
    };
    int32_t row = args.first_source(part);
#pragma unroll 1
    for (const int32_t end_row = args.end_source(part); row < end_row; ++row) {
      multiply_row<T, kN, kBlocks, dgrad_can_halve(kChannels), kLone>(
          args, memory.operands, memory.barriers, ring, part.column, memory.not_finite.lone, sums,
          [&] { write_before(row); });
      take_eldest();
    }
    // Rows that grad_output does not have; then the last results.
#pragma unroll 1
    for (; row < part.rows; ++row) {
      write_before(row);
      take_eldest();
    }
    write_before(row);
    at += part.rows;
  }
  return writer.wrote_nan();
}

// The same for a filter with more weights that are not finite.
template <class T, int kRows, int kChannels, int kBlocks>
__device__ __forceinline__ bool compute_rows_apart(const DgradArguments& args,
                                                   const GroupMemory& memory, int32_t first,
                                                   int32_t end) {
  constexpr int kN = kRows * kChannels;
  RowWriter<T, kChannels, kBlocks, 0> writer(args, memory.staging, memory.group);
  const uint32_t of_last_row = channels_of_last_row<kChannels>(args);
  RingPosition ring;
  for (int32_t at = first; at < end;) {
    const StripPart part = args.part(at, end);
    const uint32_t apart = args.is_at_edge(part) ? memory.not_finite.tap_columns : 0;
    const int32_t end_row = args.end_source(part);
    float sums[kBlocks][kN / 2] = {};
#pragma unroll 1
    for (int32_t row = args.first_source(part); row < part.rows; ++row) {
      if (row < end_row) {
        multiply_row_apart<T, kN, kBlocks>(args, memory.operands, memory.barriers, ring,
                                           part.column, apart, sums);
      }
      float results[kBlocks][kChannels / 2];
      take_results<kRows, kChannels, kBlocks>(args, of_last_row, sums, results);
      if (row >= 0) writer.write(part, row, results);
    }
    at += part.rows;
  }
  return writer.wrote_nan();
}

template <class T, int kRows, int kChannels, int kBlocks, int kGroups, bool kRowsInnermost>
__global__ void __launch_bounds__(kDgradThreads<kGroups>, 1)
    dgrad_kernel(const __grid_constant__ CUtensorMap map,
                 const __grid_constant__ DgradArguments args) {
  extern __shared__ unsigned char shared_base[];
  __shared__ WindowBarriers barriers[kGroups];
  __shared__ NotFinite not_finite;
  const uint32_t base = shared_address_of(shared_base);
  unsigned char* const filter = shared_base + ((base + 1023) / 1024 * 1024 - base);
  unsigned char* const windows = filter + args.filter_bytes;
  unsigned char* const boxes = windows + kGroups * args.windows * args.window_bytes;
  unsigned char* const staging = boxes + kGroups * args.boxes * args.box_bytes;
  const int32_t warp = this_warp();
  const bool multiplies = warp < kGroups * 4;
  const int32_t group = multiplies ? warp / 4 : warp - kGroups * 4;
  WindowBarriers& own = barriers[group];
  const uint32_t own_windows =
      shared_address_of(windows) + group * args.windows * args.window_bytes;
  const int32_t first = args.first_of(static_cast<int32_t>(blockIdx.x) * kGroups + group);
  const int32_t end = args.end_from(first);
  allow_dependents();
  if (threadIdx.x == 0) {
    not_finite.clear();
    prefetch_map(&map);
    for (WindowBarriers& of : barriers) {
      for (int32_t i = 0; i < args.windows; ++i) {
        cuda::ptx::mbarrier_init(&of.full[i], 1);
        cuda::ptx::mbarrier_init(&of.empty[i], 4);
      }
      for (int32_t i = 0; i < args.boxes; ++i) cuda::ptx::mbarrier_init(&of.box[i], 1);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  if (multiplies) clear_position_filter<kGroups>(args, filter);
  __syncthreads();
  wait_for_kernel_before();

  if (!multiplies) {
    if constexpr (kRowsInnermost) {
      const uint32_t own_boxes = shared_address_of(boxes) + group * args.boxes * args.box_bytes;
      transpose_windows(args, map, own_windows, own_boxes, own, first, end);
    } else {
      if (threadIdx.x % 32 == 0) bring_windows<T>(args, map, own_windows, own, first, end);
    }
    return;
  }
  store_position_filter<T, kRows, kChannels, kGroups>(args, filter, not_finite);
  // The compiler would work out this address at each use, and ask for the block's rank in its
  // cluster, which takes long.
  uint32_t barriers_at = shared_address_of(&own);
  asm volatile("" : "+r"(barriers_at));
  const GroupMemory memory{
      .operands = {args, sizeof(T), shared_address_of(filter),
                   // Narrow windows have no boxes.
                   own_windows + args.box_shift * kPixelBytes},
      .barriers = *static_cast<WindowBarriers*>(__cvta_shared_to_generic(barriers_at)),
      .staging = staging + group * 2 * args.staging_bytes(),
      .not_finite = not_finite,
      .group = group};
  constexpr bool kLone = dgrad_has_lone_loop(kChannels);
  bool wrote_nan = false;
  if (not_finite.count == 0) {
    wrote_nan = compute_rows<T, kRows, kChannels, kBlocks, false>(args, memory, first, end);
  } else if (kLone && not_finite.count == 1) {
    wrote_nan = compute_rows<T, kRows, kChannels, kBlocks, kLone>(args, memory, first, end);
  } else {
    wrote_nan = compute_rows_apart<T, kRows, kChannels, kBlocks>(args, memory, first, end);
  }
  if (!args.mends) return;
  const int32_t again = this_warp() / 4;  // `group` would take a register through all rows
  if (group_barrier_any<128>(again + 1, wrote_nan)) mend_rows<T, kGroups>(args, again);
}

}  // namespace haloconv::sm90::first_layers
