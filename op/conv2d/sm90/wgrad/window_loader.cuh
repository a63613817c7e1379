// One load warpgroup: the input's window of a strip goes to the ring, rounded, as cells.
//
// A lane loads one column of one channel for each of the strip's segments, and stores 16 bytes. A
// warp does so for a batch of columns of a few channels, without branches; the next batch is on its
// way when one is stored.
#pragma once

#include "conv2d/sm90/mbarrier.cuh"
#include "conv2d/sm90/round.cuh"
#include "conv2d/sm90/vector_access.cuh"
#include "conv2d/sm90/wgrad/shared_memory.cuh"

namespace haloconv::sm90::wgrad {

class WindowLoader {
 public:
  __device__ WindowLoader(const Arguments& args, const SharedMemory& shared, const Block& block,
                          int32_t thread)
      : args_(args),
        shared_(shared),
        block_(block),
        warp_(__shfl_sync(~0u, thread / 32, 0)),
        lane_(thread % 32),
        quads_(args.planes(block) * (args.slot_channels / kLaneChannels)),
        input_(args.input + int64_t{block.group} * args.channels * args.input_c) {}

  __device__ void run(int32_t first_strip, int32_t strips) {
    load_strip_ = first_strip;
    end_strip_ = first_strip + strips;
    const int32_t quads_of_warp = max(1, (quads_ - warp_ + kLoadWarps - 1) / kLoadWarps);
    batches_of_strip_ =
        quads_of_warp * ((args_.plane_columns + kBatchColumns - 1) / kBatchColumns);
    begin_strip();
    Batch first, second;
    load(first);
    for (int64_t left = int64_t{strips} * batches_of_strip_; left > 0; left -= 2) {
      load(second);
      store(first);
      load(first);
      if (left > 1) store(second);
    }
  }

 private:
  // Cells on their way: a lane's are kLaneColumns columns apart.
  struct Batch {
    float values[kBatchSteps][kSegments];
    uint32_t target;  // of the first, bytes from the window's start
    int32_t columns;  // from the first to the plane's end; none: not in the window
  };

  // Writes down where the segments of the strip are that is loaded next.
  __device__ __forceinline__ void begin_strip() {
    __syncwarp();
    if (lane_ < kSegments) {
      const int32_t index = load_strip_ * kSegments + lane_;
      const Segment at = args_.segment_at(index);
      const bool exists = load_strip_ < end_strip_ && index < args_.segments;
      shared_.table(warp_)[lane_] = {
          .image = at.image * args_.input_n,
          .row = args_.input_row(at, 0),
          .column = args_.input_column(at, 0),
          .end = exists ? max(args_.input_end(at), 0) : 0,
      };
    }
    __syncwarp();
    quad_ = warp_;
    column_ = 0;
  }

  // A batch of kLaneChannels channels of a plane; then goes on to the next.
  __device__ __forceinline__ void load(Batch& batch) {
    const int32_t plane = args_.lane_groups_div.quotient(quad_);
    const int32_t in_plane =
        (quad_ - plane * args_.lane_groups_div.divisor) * kLaneChannels + lane_ % kLaneChannels;
    const int32_t line = args_.classes_div.quotient(plane);
    const int32_t tap_class = plane - line * args_.classes;
    const int32_t row = args_.tile_groups_div.quotient(line);
    const int32_t group = block_.first_group + line - row * args_.tile_groups;
    const int32_t channel = group * args_.slot_channels + in_plane;
    const int32_t column = column_ + lane_ / kLaneChannels;
    const bool exists = quad_ < quads_ && channel < args_.channels;
    const float* const plane_at = input_ + channel * args_.input_c;
    batch.target = (plane * args_.plane_cells + in_plane + column * args_.slot_channels) * 16;
    batch.columns = quad_ < quads_ ? args_.plane_columns - column : 0;
#pragma unroll
    for (int i = 0; i < kSegments; ++i) {
      const SegmentEntry entry = shared_.table(warp_)[i];
      const int32_t y = entry.row + (block_.first_row + row) * args_.dilation_h;
      const uint32_t end = exists && y >= 0 && y < args_.h ? entry.end : 0;
      int32_t x = entry.column + tap_class * args_.dilation_w + column * args_.stride_w;
      const float* at = plane_at + entry.image + int64_t{y} * args_.input_h + x;
#pragma unroll
      for (int step = 0; step < kBatchSteps; ++step) {
        asm volatile("" : "+l"(at));  // not to be taken apart for every column
        batch.values[step][i] = load_global(at, static_cast<uint32_t>(x) < end);
        at += kLaneColumns * args_.stride_w;
        x += kLaneColumns * args_.stride_w;
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
    for (int step = 0; step < kBatchSteps; ++step, at += kLaneColumns * args_.slot_channels * 16) {
      const float (&values)[kSegments] = batch.values[step];
      const uint4 cell = make_uint4(round_to_tf32(values[0]), round_to_tf32(values[1]),
                                    round_to_tf32(values[2]), round_to_tf32(values[3]));
      if (step * kLaneColumns < batch.columns) *reinterpret_cast<uint4*>(at) = cell;
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
  const Block& block_;
  const int32_t warp_, lane_;
  const int32_t quads_;       // of a window
  const float* const input_;  // of the group
  int32_t batches_of_strip_;  // this warp's; at least one, which need not be in the window
  // What is loaded next.
  int32_t load_strip_, end_strip_, quad_, column_;
  RingPosition ring_;
  int32_t stored_ = 0;  // batches of the ring's stage
};

}  // namespace haloconv::sm90::wgrad
