// One load warpgroup: it brings the lines that a strip adds to the window into the ring, as cells.
//
// A warp loads, without branches, a batch: some columns of four or eight channels (a bundle) in
// each of the strip's segments. It stores 16 bytes for each cell, while the loads of the next
// batches are on their way. What does not change from strip to strip is in a table. The batches of
// a strip are numbered (line, bundle, columns); each of the four warps takes every fourth.
#pragma once

#include "conv2d/families/wgrad/shared_memory.cuh"
#include "conv2d/families/wgrad/window_values.cuh"
#include "cuda/mbarrier.cuh"

namespace haloconv::wgrad {

// Writes the table of a line's bundles. All threads of the block take part.
template <class T>
__device__ __forceinline__ void make_bundle_table(const Arguments& args, const SharedMemory& shared,
                                                  const Block& block) {
  for (int32_t bundle = static_cast<int32_t>(threadIdx.x); bundle < args.bundles();
       bundle += kThreads) {
    const int32_t bundle_channels = lane_channels(args.input_vector);
    const int32_t bundles_of_plane = args.mma_channels / bundle_channels;
    const int32_t plane = bundle / bundles_of_plane;
    const int32_t in_plane = bundle % bundles_of_plane * bundle_channels;
    const int32_t channel =
        (block.first_group + plane / args.classes) * args.mma_channels + in_plane;
    const int32_t column = plane % args.classes * args.dilation_w;
    shared.bundles()[bundle] = {
        .offset = (channel * args.input_c + column) * static_cast<int64_t>(sizeof(T)),
        .column = column,
        .target = (plane * args.plane_cells + in_plane) * 16,
        .channels = args.channels - channel,
    };
  }
}

// kVector: neighbouring columns that a lane loads at once. kShifts: whether lines of short segments
// may have a left part (shifted_segments.h).
template <class T, int kVector, bool kShifts>
class WindowLoader {
  static constexpr int kSegments = segments_of(sizeof(T)), kBytes = sizeof(T);
  static constexpr int kTerms = Element<T>::kTerms;
  static constexpr int kLaneChannels = lane_channels(kVector), kLaneColumns = lane_columns(kVector);
  static constexpr int kBatchColumns = batch_columns(kVector);

 public:
  __device__ WindowLoader(const Arguments& args, const SharedMemory& shared, const Block& block,
                          int32_t thread)
      : args_(args),
        shared_(shared),
        block_(block),
        warp_(__shfl_sync(~0u, thread / 32, 0)),
        lane_(thread % 32),
        bundles_(args.bundles()),
        batches_of_bundle_((args.plane_columns + kBatchColumns - 1) / kBatchColumns),
        lane_column_(lane_ / kLaneChannels * kVector),
        input_(reinterpret_cast<const char*>(
            static_cast<const T*>(args.input) +
            (int64_t{block.group} * args.channels + lane_ % kLaneChannels) * args.input_c +
            lane_column_ * args.stride_w)),
        loaded_(args.first_window(block.split)),
        stored_(loaded_) {}

  __device__ void run() {
    int32_t left = args_.strips_of(block_.split);
    load_strip_ = args_.first_strip(block_.split);
    end_strip_ = load_strip_ + left;
    if constexpr (kShifts) first_short_ = end_strip_ - args_.short_strips_of(block_.split);
    begin_loading(0);
    begin_storing(0);
    Batch batches[WindowValues<T, kVector>::kInFlight];
#pragma unroll
    for (Batch& batch : batches) load(batch);
    while (left > 0) {
#pragma unroll
      for (Batch& batch : batches) {
        if (left > 0) left -= store(batch);
        load(batch);
      }
    }
  }

 private:
  static_assert(kVector == 1 || kVector == kBatchSteps);
  // A lane's columns of a batch are so far apart.
  static constexpr int kStepColumns = kVector == 1 ? kLaneColumns : 1;

  // Cells on their way.
  struct Batch {
    WindowValues<T, kVector> values;
    int32_t target;   // of the first, bytes from the ring's start
    int32_t columns;  // from the first to the plane's end; none: not in the window
  };

  // Records where the segments of the strip to load next lie, and starts at a line of its window.
  __device__ __forceinline__ void begin_loading(int32_t first_line) {
    __syncwarp();
    if constexpr (kShifts) left_part_ = load_strip_ < first_short_ ? 0 : args_.left_part;
    if (lane_ < kSegments) {
      const Segment at = args_.segment_at(load_strip_, lane_, kSegments);
      const int32_t row = args_.input_row(at, block_.first_row);
      const int32_t column = args_.input_column(at, 0) - (kShifts ? left_part_ : 0);
      const bool exists = load_strip_ < end_strip_ && at.exists;
      segments()[lane_] = {
          .offset = (at.image * args_.input_n + int64_t{row} * args_.input_h + column) * kBytes,
          .row = row,
          .column = column,
          .end = exists ? max(args_.input_end(at), 0) : 0,
      };
    }
    __syncwarp();
    line_ = first_line;
    bundle_ = warp_ / batches_of_bundle_;
    column_ = warp_ % batches_of_bundle_ * kBatchColumns;
    wrap();
  }

  // From a bundle beyond the line's last to the next line.
  __device__ __forceinline__ void wrap() {
    while (bundle_ >= bundles_) {
      bundle_ -= bundles_;
      ++line_;
    }
  }

  // A batch of kLaneChannels channels of a line; then goes on to the next.
  __device__ __forceinline__ void load(Batch& batch) {
    const bool is_line = line_ < block_.rows;
    const BundleEntry bundle = shared_.bundles()[bundle_];
    const int32_t row = line_ * args_.dilation_h;  // of the input, from the window's first
    const int32_t column = column_ + lane_column_;
    const bool exists = is_line && lane_ % kLaneChannels < bundle.channels;
    const int32_t from = column_ * args_.stride_w - left_of(column);
    const char* const line_at =
        input_ + bundle.offset + (int64_t{row} * args_.input_h + from) * kBytes;
    batch.target = args_.in_ring(loaded_.cell + line_ * args_.line_cells) * 16 + bundle.target +
                   (lane_ % kLaneChannels + column * args_.mma_channels) * 16;
    batch.columns = is_line ? args_.plane_columns - column : 0;
#pragma unroll
    for (int i = 0; i < kSegments; ++i) {
      const SegmentEntry segment = segments()[i];
      const bool has_row =
          static_cast<uint32_t>(segment.row + row) < static_cast<uint32_t>(args_.h);
      const uint32_t end = exists && has_row ? segment.end : 0;
      const uint32_t x = segment.column + bundle.column + column * args_.stride_w - left_of(column);
      const auto* at = reinterpret_cast<const T*>(line_at + segment.offset);
      if constexpr (kVector > 1) {
        batch.values.load(i, at, x < end);
      } else {
#pragma unroll
        for (int step = 0; step < kBatchSteps; ++step) {
          const int32_t ahead = step * kStepColumns * args_.stride_w + left_of(column) -
                                left_of(column + step * kStepColumns);
          batch.values.load(i, step, at + ahead, x + ahead < end);
        }
      }
    }
    column_ += kLoadWarps % batches_of_bundle_ * kBatchColumns;
    bundle_ += kLoadWarps / batches_of_bundle_;
    if (column_ >= batches_of_bundle_ * kBatchColumns) {
      column_ -= batches_of_bundle_ * kBatchColumns;
      ++bundle_;
    }
    wrap();
    if (line_ < block_.rows) return;
    ++load_strip_;
    args_.advance(loaded_);
    begin_loading(args_.first_fresh(block_, loaded_));
  }

  // How much further to the left than its place in the line says a column of the left part lies.
  __device__ __forceinline__ int32_t left_of(int32_t column) const {
    if constexpr (!kShifts) return 0;
    return column < left_part_ ? args_.left_part_step() : 0;
  }

  __device__ __forceinline__ SegmentEntry* segments() const {
    return shared_.segments(warp_, kSegments);
  }

  // Counts this warp's batches of a strip. There is at least one, which may lie outside the window.
  __device__ __forceinline__ void begin_storing(int32_t first_line) {
    const int32_t batches = (block_.rows - first_line) * bundles_ * batches_of_bundle_;
    left_ = max(1, (batches - warp_ + kLoadWarps - 1) / kLoadWarps);
    is_free_ = false;
  }

  // Waits until the lines and the stage that a strip takes have been read.
  __device__ __forceinline__ void wait_for_room() {
    for (; ahead_ > args_.strips_behind(stored_.step); --ahead_) {
      mbarrier_wait(shared_.lines_read(read_.stage), read_.parity);
      read_.advance(args_.stages);
    }
    is_free_ = true;
  }

  // Returns whether the strip is complete.
  __device__ __forceinline__ bool store(Batch& batch) {
    if (!is_free_) wait_for_room();
    unsigned char* at = shared_.lines() + batch.target;
#pragma unroll
    for (int step = 0; step < kBatchSteps; ++step) {
      uint4 cells[kTerms];
      batch.values.cells(step, cells);
      if (step * kStepColumns < batch.columns) {
#pragma unroll
        for (int term = 0; term < kTerms; ++term) {
          reinterpret_cast<uint4*>(at)[term * args_.ring_cells] = cells[term];
        }
      }
      at += kStepColumns * args_.mma_channels * 16;
    }
    if (--left_ > 0) return false;
    // The tensor cores read what ordinary stores wrote.
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    cuda::ptx::mbarrier_arrive(shared_.full(ring_.stage));
    ring_.advance(args_.stages);
    ++ahead_;
    args_.advance(stored_);
    begin_storing(args_.first_fresh(block_, stored_));
    return true;
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const Block& block_;
  const int32_t warp_, lane_;
  const int32_t bundles_, batches_of_bundle_;  // of a line
  const int32_t lane_column_;                  // the lane's first, of a batch
  const char* const input_;  // of the group, the lane's channel of a bundle and its first column
  // What is loaded next.
  int32_t load_strip_, end_strip_, line_, bundle_, column_;
  Window loaded_;
  int32_t first_short_, left_part_;  // where segments may shift: a strip, and columns
  // What is stored next.
  Window stored_;
  RingPosition ring_;
  RingPosition read_;  // of the first strip that may not have been read yet
  int32_t ahead_ = 0;  // strips from that one to the one that is stored
  int32_t left_;       // batches of the strip
  bool is_free_;       // its place
};

}  // namespace haloconv::wgrad
