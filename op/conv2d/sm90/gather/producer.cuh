// The load warps: windows of the source go from global memory, rounded and transposed, to the ring.
//
// A thread brings 8 channels of a pixel: neighbouring threads read neighbouring pixels of a row,
// and each stores two 16-byte cells. Which pixels of a window are a thread's, and where they lie,
// is worked out once and kept in a table of its own in shared memory. Loads run kInFlight cells
// ahead of the stores, from tile to tile too: they hide the memory's latency where a tile has few
// chunks.
#pragma once

#include "conv2d/sm90/gather/shared_memory.cuh"
#include "conv2d/sm90/gather/tile_order.cuh"
#include "conv2d/sm90/mbarrier.cuh"
#include "conv2d/sm90/round.cuh"
#include "conv2d/sm90/vector_access.cuh"

namespace haloconv::sm90 {

template <int kInFlight>
class Producer {
 public:
  __device__ Producer(const Arguments& args, const SharedMemory& shared, int32_t thread)
      : args_(args),
        shared_(shared),
        thread_(thread),
        cells_of_warp_(max(1, (args.window_cells - __shfl_sync(~0u, thread, 0) + kLoadThreads - 1) /
                                  kLoadThreads)) {}

  __device__ void run(int32_t split) {
    first_channel_ = split * args_.split_chunks * kChunk;
    const int32_t chunks = min(args_.split_chunks, args_.chunks - split * args_.split_chunks);
    tile_channels_ = min(args_.channels - first_channel_, chunks * kChunk);
    next_tile_ = blockIdx.x / args_.splits;
    make_table();
    const int64_t tiles = (args_.tiles - 1 - next_tile_) / args_.clusters + 1;
    move_cells(tiles * chunks * cells_of_warp_);
  }

 private:
  // A cell on its way.
  struct Cell {
    float values[kChunk];
    uint16_t cell;
  };

  // The table's entries for this thread: cells thread, thread + kLoadThreads, ...
  __device__ __forceinline__ void make_table() const {
    const WindowAxis& h = args_.h;
    const WindowAxis& w = args_.w;
    for (int32_t n = 0; n < cells_of_warp_; ++n) {
      const int32_t i = n * kLoadThreads + thread_;
      const int32_t image = args_.image_div.quotient(i);
      const int32_t in_image = i - image * args_.image_cells;
      const int32_t row = args_.pitch_div.quotient(in_image);
      // Along the row in the source's order, so that neighbours read neighbours.
      const int32_t in_row = in_image - row * args_.pitch;
      const int32_t column = args_.residues_w_div.quotient(in_row);
      const int32_t residue_w = in_row - column * w.residues;
      const int32_t residue_h = args_.cells_h_div.quotient(row);
      const int32_t y = (row - residue_h * h.cells) * h.source_step + h.residue[residue_h];
      const int32_t x = column * w.source_step + w.residue[residue_w];
      const int32_t cell = i - in_row + residue_w * w.cells + column;
      shared_.table()[i] = {static_cast<int32_t>(image * args_.source_n) + y * args_.source_h + x,
                            y, x, static_cast<uint16_t>(image),
                            i < args_.window_cells ? static_cast<uint16_t>(cell) : kNoCell};
    }
  }

  __device__ __forceinline__ void move_cells(int64_t moves) {
    Cell cells[kInFlight];
#pragma unroll
    for (Cell& cell : cells) load(cell);
    for (int64_t move = 0; move < moves; move += kInFlight) {
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (move + i < moves) store(cells[i]);
        load(cells[i]);
      }
    }
  }

  // Makes ready to load the next tile's cells; after the last tile no channels are left.
  __device__ __forceinline__ void begin_tile() {
    if (next_tile_ >= args_.tiles) return;
    const TilePosition tile(args_, next_tile_);
    next_tile_ += args_.clusters;
    row_ = tile.h * args_.h.source_step + args_.h.origin;
    column_ = tile.w * args_.w.source_step + args_.w.origin;
    images_ = args_.images - tile.image;
    source_ = args_.source + tile.image * args_.source_n +
              (int64_t{tile.group} * args_.channels + first_channel_) * args_.source_c +
              row_ * int64_t{args_.source_h} + column_;
    channels_ = tile_channels_;
  }

  // The next cell's channels; nothing once all are under way.
  __device__ __forceinline__ void load(Cell& cell) {
    if (channels_ <= 0) begin_tile();
    const CellEntry entry = shared_.table()[load_cell_ * kLoadThreads + thread_];
    cell.cell = entry.cell;
    const float* at = source_ + entry.source;
    // As unsigned numbers, rows and columns before the first are beyond the last.
    const bool inside = static_cast<uint32_t>(row_ + entry.row) < args_.h.source_size &&
                        static_cast<uint32_t>(column_ + entry.column) < args_.w.source_size &&
                        entry.image < images_ && entry.cell != kNoCell;
    const int32_t channels = inside ? channels_ : 0;
#pragma unroll
    for (int i = 0; i < kChunk; ++i, at += args_.source_c) {
      cell.values[i] = load_global(at, i < channels);
    }
    if (++load_cell_ == cells_of_warp_) {
      load_cell_ = 0;
      source_ += kChunk * args_.source_c;
      channels_ -= kChunk;
    }
  }

  __device__ __forceinline__ void store(const Cell& cell) {
    if (store_cell_ == 0) mbarrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
    if (cell.cell != kNoCell) {
      unsigned char* at = shared_.stage(ring_.stage) + cell.cell * 16;
#pragma unroll
      for (int half = 0; half < 2; ++half, at += args_.window_cells * 16) {
        *reinterpret_cast<uint4*>(at) = make_uint4(
            round_to_tf32(cell.values[half * 4]), round_to_tf32(cell.values[half * 4 + 1]),
            round_to_tf32(cell.values[half * 4 + 2]), round_to_tf32(cell.values[half * 4 + 3]));
      }
    }
    if (++store_cell_ == cells_of_warp_) {
      store_cell_ = 0;
      // The tensor cores read what ordinary stores wrote.
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
      cuda::ptx::mbarrier_arrive(shared_.full(ring_.stage));
      ring_.advance(args_.stages);
    }
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t thread_;
  const int32_t cells_of_warp_;  // 32 at a time; at least one, which need not be in the window
  RingPosition ring_;
  int32_t first_channel_, tile_channels_;  // of this split
  uint32_t next_tile_;
  // Of the window to load: its first pixel of the chunk, the images and channels from there on.
  const float* source_ = nullptr;
  int32_t row_ = 0, column_ = 0, images_ = 0, channels_ = 0;
  int32_t load_cell_ = 0, store_cell_ = 0;
};

}  // namespace haloconv::sm90
