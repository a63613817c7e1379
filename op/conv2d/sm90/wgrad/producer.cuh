// The load warps: a strip's pixels of grad_output and its window of the input go to the ring.
//
// grad_output is copied as it lies; what is rounded is the register operand that the math warps make
// of it. Cells of the window are gathered: a lane loads one column of one channel for each of the
// strip's segments, rounds, and stores 16 bytes. Loads run kInFlight cells ahead of the stores.
#pragma once

#include "conv2d/sm90/mbarrier.cuh"
#include "conv2d/sm90/round.cuh"
#include "conv2d/sm90/vector_access.cuh"
#include "conv2d/sm90/wgrad/shared_memory.cuh"

namespace haloconv::sm90::wgrad {

// kFloats neighbours, of which only `floats` are read: the others are zero.
template <int kFloats>
__device__ __forceinline__ void copy_async(uint32_t to, const float* from, int32_t floats) {
  if constexpr (kFloats == 4) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(floats * 4)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from),
                 "n"(kFloats * 4), "r"(floats * 4)
                 : "memory");
  }
}

class Producer {
 public:
  __device__ Producer(const Arguments& args, const SharedMemory& shared, const Block& block,
                      int32_t thread)
      : args_(args),
        shared_(shared),
        block_(block),
        thread_(thread),
        warp_(__shfl_sync(~0u, thread / 32, 0)),
        lane_(thread % 32),
        first_strip_(args.first_strip(block.split)),
        strips_(args.strips_of(block.split)),
        quads_(args.planes(block) * (args.slot_channels / kLaneChannels)),
        column_steps_((args.plane_columns + kLaneColumns - 1) / kLaneColumns),
        cells_of_strip_(max(1, (quads_ - warp_ + kLoadWarps - 1) / kLoadWarps) * column_steps_),
        input_(args.input + int64_t{block.group} * args.channels * args.input_c) {}

  // The whole split.
  __device__ void run() {
    begin_window();
    Cell cells[kInFlight];
#pragma unroll
    for (Cell& cell : cells) load(cell);
    const int32_t moves = strips_ * cells_of_strip_;
    for (int32_t move = 0; move < moves; move += kInFlight) {
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (move + i < moves) store(cells[i]);
        load(cells[i]);
      }
    }
  }

 private:
  static constexpr int kInFlight = 4;
  static constexpr uint32_t kNoCell = ~uint32_t{0};

  // A cell on its way.
  struct Cell {
    float values[kSegments];
    uint32_t target;  // bytes from the window's start, or kNoCell
  };

  // The segments of the strip that is to be loaded next.
  __device__ void begin_window() {
    __syncwarp();
    if (lane_ < kSegments) {
      const int32_t index = (first_strip_ + load_strip_) * kSegments + lane_;
      const Segment at = args_.segment_at(index);
      const bool exists = load_strip_ < strips_ && index < args_.segments;
      shared_.table(warp_)[lane_] = {
          .image = at.image * args_.input_n,
          .row = args_.input_row(at, 0),
          .column = args_.input_column(at, 0),
          .end = exists ? max(args_.input_end(at), 0) : 0,
      };
    }
    __syncwarp();
    quad_ = warp_;
    begin_quad();
  }

  // kLaneChannels channels of a plane.
  __device__ __forceinline__ void begin_quad() {
    const int32_t plane = args_.lane_groups_div.quotient(quad_);
    const int32_t in_plane =
        (quad_ - plane * args_.lane_groups_div.divisor) * kLaneChannels + lane_ % kLaneChannels;
    const int32_t line = args_.classes_div.quotient(plane);
    const int32_t tap_class = plane - line * args_.classes;
    const int32_t row = args_.tile_groups_div.quotient(line);
    const int32_t group = block_.first_group + line - row * args_.tile_groups;
    const int32_t channel = group * args_.slot_channels + in_plane;
    const bool exists = quad_ < quads_ && channel < args_.channels;
    const float* const plane_at = input_ + channel * args_.input_c;
#pragma unroll
    for (int i = 0; i < kSegments; ++i) {
      const SegmentEntry entry = shared_.table(warp_)[i];
      const int32_t y = entry.row + (block_.first_row + row) * args_.dilation_h;
      const bool inside = exists && y >= 0 && y < args_.h;
      row_at_[i] = plane_at + entry.image + int64_t{y} * args_.input_h;
      column_[i] = entry.column + tap_class * args_.dilation_w + lane_ / kLaneChannels * args_.stride_w;
      end_[i] = inside ? entry.end : 0;
    }
    target_ = quad_ < quads_
                  ? (plane * args_.plane_cells + in_plane +
                     lane_ / kLaneChannels * args_.slot_channels) * 16
                  : kNoCell;
    column_step_ = 0;
  }

  __device__ __forceinline__ void load(Cell& cell) {
    const int32_t column = column_step_ * kLaneColumns;
    const bool is_cell = target_ != kNoCell && column + lane_ / kLaneChannels < args_.plane_columns;
    cell.target = is_cell ? target_ + column * args_.slot_channels * 16 : kNoCell;
#pragma unroll
    for (int i = 0; i < kSegments; ++i) {
      const int32_t x = column_[i] + column * args_.stride_w;
      cell.values[i] = load_global(row_at_[i] + x,
                                   static_cast<uint32_t>(x) < static_cast<uint32_t>(end_[i]));
    }
    if (++column_step_ < column_steps_) return;
    quad_ += kLoadWarps;
    if (quad_ < quads_) {
      begin_quad();
    } else {
      ++load_strip_;
      begin_window();
    }
  }

  __device__ __forceinline__ void store(const Cell& cell) {
    if (stored_ == 0) {
      mbarrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
      copy_grad_output();
    }
    if (cell.target != kNoCell) {
      *reinterpret_cast<uint4*>(shared_.window(ring_.stage) + cell.target) =
          make_uint4(round_to_tf32(cell.values[0]), round_to_tf32(cell.values[1]),
                     round_to_tf32(cell.values[2]), round_to_tf32(cell.values[3]));
    }
    if (++stored_ == cells_of_strip_) {
      stored_ = 0;
      // The tensor cores read what ordinary stores wrote.
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
      cuda::ptx::mbarrier_arrive(shared_.full(ring_.stage));
      ++store_strip_;
      ring_.advance(args_.stages);
    }
  }

  // Starts the copies of the strip whose cells are stored next; the barrier counts their end.
  __device__ __forceinline__ void copy_grad_output() {
    if (args_.vector == 4) {
      copy_pixels<4>();
    } else if (args_.vector == 2) {
      copy_pixels<2>();
    } else {
      copy_pixels<1>();
    }
    cuda::ptx::cp_async_mbarrier_arrive_noinc(shared_.full(ring_.stage));
  }

  // A thread copies the same pixels of some rows (output channels); rows beyond the last stay as
  // they are, for they come to sums that nobody reads.
  template <int kVector>
  __device__ __forceinline__ void copy_pixels() {
    const int32_t vectors = args_.segment / kVector;  // of a segment
    const int32_t step = kLoadThreads / (vectors * kSegments);
    const int32_t first_row = thread_ / (vectors * kSegments);
    const int32_t segment = thread_ / vectors % kSegments;
    const int32_t pixel = thread_ % vectors * kVector;
    const int32_t index = (first_strip_ + store_strip_) * kSegments + segment;
    const Segment at = args_.segment_at(index);
    const int32_t rest = index < args_.segments ? args_.q - at.column - pixel : 0;
    const int32_t pixels = max(0, min(rest, kVector));
    const int32_t tile_row = block_.row_tile * args_.tile_rows;
    const int32_t rows = first_row < step ? min(args_.tile_rows, args_.rows - tile_row) : 0;
    const float* from =
        args_.grad_output + at.image * args_.output_n + int64_t{at.row} * args_.output_p +
        at.column + pixel +
        (int64_t{block_.group} * args_.rows + tile_row + first_row) * args_.output_k;
    uint32_t to = shared_address(shared_.grad_output(ring_.stage)) +
                  (first_row * kSegments + segment) * args_.segment_cells * 16 + pixel * 4;
#pragma unroll 4
    for (int32_t row = first_row; row < rows; row += step) {
      copy_async<kVector>(to, from, pixels);
      from += step * args_.output_k;
      to += step * kSegments * args_.segment_cells * 16;
    }
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const Block& block_;
  const int32_t thread_, warp_, lane_;
  const int32_t first_strip_, strips_;
  const int32_t quads_, column_steps_;  // of a window
  const int32_t cells_of_strip_;        // a lane's; at least one, which need not be in the window
  const float* const input_;            // of the group
  RingPosition ring_;
  int32_t store_strip_ = 0, stored_ = 0;
  // What is loaded next.
  int32_t load_strip_ = 0, quad_ = 0, column_step_ = 0;
  const float* row_at_[kSegments];
  int32_t column_[kSegments], end_[kSegments];
  uint32_t target_ = 0;
};

}  // namespace haloconv::sm90::wgrad
