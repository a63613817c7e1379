// One load warpgroup: the input's window of a strip goes to the ring, rounded, as cells.
//
// A warp loads, without branches, a batch of columns of a few channels for each of the strip's
// segments, and stores 16 bytes a cell; the next ones are on their way when a batch is stored. All
// that does not change from strip to strip is in a table.
#pragma once

#include "conv2d/sm90/mbarrier.cuh"
#include "conv2d/sm90/round.cuh"
#include "conv2d/sm90/vector_access.cuh"
#include "conv2d/sm90/wgrad/shared_memory.cuh"

namespace haloconv::sm90::wgrad {

// Writes the table of quads; by all threads of a block.
__device__ __forceinline__ void make_quad_table(const Arguments& args, const SharedMemory& shared,
                                                const Block& block) {
  for (int32_t quad = static_cast<int32_t>(threadIdx.x); quad < args.quads(block);
       quad += kThreads) {
    const int32_t quads_of_plane = args.slot_channels / kLaneChannels;
    const int32_t plane = quad / quads_of_plane, line = plane / args.classes;
    const int32_t tap_class = plane % args.classes;
    const int32_t in_plane = quad % quads_of_plane * kLaneChannels;
    const int32_t channel =
        (block.first_group + line % args.tile_groups) * args.slot_channels + in_plane;
    const int32_t row = (block.first_row + line / args.tile_groups) * args.dilation_h;
    const int32_t column = tap_class * args.dilation_w;
    shared.quads()[quad] = {
        .offset = (channel * args.input_c + int64_t{row} * args.input_h + column) * 4,
        .row = row,
        .column = column,
        .target = (plane * args.plane_cells + in_plane) * 16,
        .channels = args.channels - channel,
    };
  }
}

// kVector: neighbouring columns that a lane loads at once.
template <int kVector>
class WindowLoader {
 public:
  __device__ WindowLoader(const Arguments& args, const SharedMemory& shared, const Block& block,
                          int32_t thread)
      : args_(args),
        shared_(shared),
        warp_(__shfl_sync(~0u, thread / 32, 0)),
        lane_(thread % 32),
        quads_(args.quads(block)),
        lane_column_(lane_ / kLaneChannels * kVector),
        input_(reinterpret_cast<const char*>(
            args.input +
            (int64_t{block.group} * args.channels + lane_ % kLaneChannels) * args.input_c +
            lane_column_ * args.stride_w)) {}

  __device__ void run(int32_t first_strip, int32_t strips) {
    load_strip_ = first_strip;
    end_strip_ = first_strip + strips;
    const int32_t quads_of_warp = max(1, (quads_ - warp_ + kLoadWarps - 1) / kLoadWarps);
    batches_of_strip_ = quads_of_warp * ((args_.plane_columns + kBatchColumns - 1) / kBatchColumns);
    begin_strip();
    const int64_t total = int64_t{strips} * batches_of_strip_;
    Batch batches[kInFlight];
    for (int64_t first = -kInFlight; first < total; first += kInFlight) {
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (first >= 0 && first + i < total) store(batches[i]);
        load(batches[i]);
      }
    }
  }

 private:
  static constexpr int kInFlight = 3;  // batches: as many as there are registers for
  static_assert(kVector == 1 || kVector == kBatchSteps);
  // A lane's columns of a batch are so far apart.
  static constexpr int kStepColumns = kVector == 1 ? kLaneColumns : 1;

  // Cells on their way.
  struct Batch {
    float values[kSegments][kBatchSteps];
    int32_t target;   // of the first, bytes from the window's start
    int32_t columns;  // from the first to the plane's end; none: not in the window
  };

  // Writes down where the segments of the strip are that is loaded next.
  __device__ __forceinline__ void begin_strip() {
    __syncwarp();
    if (lane_ < kSegments) {
      const int32_t index = load_strip_ * kSegments + lane_;
      const Segment at = args_.segment_at(index);
      const int32_t row = args_.input_row(at, 0), column = args_.input_column(at, 0);
      const bool exists = load_strip_ < end_strip_ && index < args_.segments;
      shared_.segments(warp_)[lane_] = {
          .offset = (at.image * args_.input_n + int64_t{row} * args_.input_h + column) * 4,
          .row = row,
          .column = column,
          .end = exists ? max(args_.input_end(at), 0) : 0,
      };
    }
    __syncwarp();
    quad_ = warp_;
    column_ = 0;
  }

  // A batch of kLaneChannels channels of a plane; then goes on to the next.
  __device__ __forceinline__ void load(Batch& batch) {
    const bool is_quad = quad_ < quads_;
    const QuadEntry quad = shared_.quads()[is_quad ? quad_ : 0];
    const int32_t column = column_ + lane_column_;
    const bool exists = is_quad && lane_ % kLaneChannels < quad.channels;
    const char* const plane_at = input_ + quad.offset + column_ * args_.stride_w * 4;
    batch.target = quad.target + (lane_ % kLaneChannels + column * args_.slot_channels) * 16;
    batch.columns = is_quad ? args_.plane_columns - column : 0;
#pragma unroll
    for (int i = 0; i < kSegments; ++i) {
      const SegmentEntry segment = shared_.segments(warp_)[i];
      const bool has_row =
          static_cast<uint32_t>(segment.row + quad.row) < static_cast<uint32_t>(args_.h);
      const uint32_t end = exists && has_row ? segment.end : 0;
      const uint32_t x = segment.column + quad.column + column * args_.stride_w;
      const auto* at = reinterpret_cast<const float*>(plane_at + segment.offset);
      if constexpr (kVector > 1) {
        load_global(at, batch.values[i], x < end);
      } else {
#pragma unroll
        for (int step = 0; step < kBatchSteps; ++step) {
          const int32_t ahead = step * kStepColumns * args_.stride_w;
          batch.values[i][step] = load_global(at + ahead, x + ahead < end);
        }
      }
    }
    column_ += kBatchColumns;
    if (column_ < args_.plane_columns) return;
    column_ = 0;
    quad_ += kLoadWarps;
    if (quad_ < quads_) return;
    ++load_strip_;
    begin_strip();
  }

  __device__ __forceinline__ void store(const Batch& batch) {
    if (stored_ == 0) mbarrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
    unsigned char* at = shared_.window(ring_.stage) + batch.target;
#pragma unroll
    for (int step = 0; step < kBatchSteps; ++step) {
      const uint4 cell =
          make_uint4(round_to_tf32(batch.values[0][step]), round_to_tf32(batch.values[1][step]),
                     round_to_tf32(batch.values[2][step]), round_to_tf32(batch.values[3][step]));
      if (step * kStepColumns < batch.columns) *reinterpret_cast<uint4*>(at) = cell;
      at += kStepColumns * args_.slot_channels * 16;
    }
    if (++stored_ < batches_of_strip_) return;
    stored_ = 0;
    // The tensor cores read what ordinary stores wrote.
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    cuda::ptx::mbarrier_arrive(shared_.full(ring_.stage));
    ring_.advance(args_.stages);
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t warp_, lane_;
  const int32_t quads_;        // of a window
  const int32_t lane_column_;  // the lane's first, of a batch
  const char* const input_;    // of the group, the lane's channel of a quad and its first column
  int32_t batches_of_strip_;   // this warp's; at least one, which need not be in the window
  // What is loaded next.
  int32_t load_strip_, end_strip_, quad_, column_;
  RingPosition ring_;
  int32_t stored_ = 0;  // batches of the ring's stage
};

}  // namespace haloconv::sm90::wgrad
