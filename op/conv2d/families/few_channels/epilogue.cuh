// Writes complete rows of the destination. The products of the last row of taps make such a row
// when those of neighbouring columns have been added. They are staged in shared memory, and added
// and written while the tensor cores compute the next row.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/few_channels/mainloop.cuh"

namespace haloconv::few_channels {

template <class T, int kRowTaps, int kColumns>
class Epilogue {
 public:
  using Math = Mainloop<T, kRowTaps, kColumns>;

  __device__ __forceinline__ Epilogue(const Arguments& args, const SharedMemory& shared,
                                      int32_t thread, bool has_zeros)
      : args_(args),
        shared_(shared),
        thread_(thread),
        has_zeros_(has_zeros),
        first_tap_(args.first_tap(thread)),
        end_tap_(args.end_tap(thread)),
        staged_(shared_address(shared.staged())),
        channel_(args.rows) {}

  // Begins the rows of a band of an image, after write_all() was called for those before.
  __device__ __forceinline__ void begin(int32_t band, int32_t image) {
    band_ = band;
    image_ = image;
    const Column column = args_.column_of(band, thread_);
    exists_ = column.exists && thread_ < args_.band_columns;
    has_bias_ = args_.bias != nullptr && (!column.is_fringe || column.side == 0);
    // In the fringe, the neighbour has the taps that this band does not have.
    adds_zeros_ = has_zeros_ && !column.is_fringe && (first_tap_ > 0 || end_tap_ < args_.taps_w);
    is_fringe_ = column.is_fringe;
    if (column.is_fringe) {
      first_to_ = reinterpret_cast<Unit*>(args_.fringe + args_.fringe_at(column, image, 0));
      row_step_ = args_.fringe_row(0, 0, 1) * kUnits<float>;
      channel_step_ = args_.fringe_columns() * kUnits<float>;
    } else {
      first_to_ =
          reinterpret_cast<Unit*>(static_cast<T*>(args_.destination) + image * args_.destination_n +
                                  column.x * args_.destination_w);
      row_step_ = args_.destination_h * kUnits<T>;
      channel_step_ = args_.destination_c * kUnits<T>;
    }
  }

  // Takes the products of the last row of taps, after write_all() was called for the row before.
  __device__ __forceinline__ void take(const typename Math::Sums& sums, int32_t row) {
    mbarrier_wait(shared_.is_read(), parity_ ^ 1);  // the row before
    const uint32_t to = staged_ + (thread_ % 4 * 2 * kStagedPitch + pixel_of_thread(thread_)) * 4;
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int at = (kRowTaps - 1) * Math::kRowValues + i * 4 + j;
        const uint32_t column_to = to + (i * 8 + j) * kStagedPitch * 4;
        store_shared(column_to, {sums[0][at], sums[0][at + 2]});
        store_shared(column_to + kWarpPixels * 4, {sums[1][at], sums[1][at + 2]});
      }
    }
    cuda::ptx::mbarrier_arrive(shared_.is_staged());
    row_ = row;
    row_to_ = first_to_ + row * row_step_;
    channel_ = 0;
  }

  // Writes some channels of what take() took.
  __device__ __forceinline__ void write_some() {
    if (channel_ >= args_.rows) return;
    if (channel_ == 0) {
      mbarrier_wait(shared_.is_staged(), parity_);
      parity_ ^= 1;
      if (args_.fringe_columns() > 0) write_beside();
    }
    write_channels();
    channel_ += kTogether;
    if (channel_ >= args_.rows) cuda::ptx::mbarrier_arrive(shared_.is_read());
  }

  __device__ __forceinline__ void write_all() {
    while (channel_ < args_.rows) write_some();
  }

 private:
  // The unit of distances: for 16-bit types bytes, since the fringe is float32.
  using Unit = std::conditional_t<std::is_same_v<T, float>, float, unsigned char>;
  template <class Of>
  static constexpr int64_t kUnits = sizeof(Of) / sizeof(Unit);

  __device__ __forceinline__ void write_channels() {
    const uint32_t tap_step = (args_.rows * kStagedPitch + args_.column_step) * 4;
    uint32_t from = staged_ + (channel_ * kStagedPitch + thread_ + args_.offset) * 4;
    float sums[kTogether] = {};
    // Past the last channel are other products, or nothing, so these are not written.
    if (args_.taps_w == 3) {  // all loads come before the first sum
      float products[3][kTogether];
#pragma unroll
      for (int tap = 0; tap < 3; ++tap) {
        const bool has_tap = tap >= first_tap_ && tap < end_tap_;
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          products[tap][i] = has_tap ? load(from + tap * tap_step + i * kStagedPitch * 4) : 0;
        }
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        sums[i] = products[0][i] + products[1][i] + products[2][i];
    } else {
      from += first_tap_ * tap_step;
#pragma unroll 1
      for (int32_t tap = first_tap_; tap < end_tap_; ++tap, from += tap_step) {
#pragma unroll
        for (int i = 0; i < kTogether; ++i) sums[i] += load(from + i * kStagedPitch * 4);
      }
    }
    if (has_bias_) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) sums[i] += shared_.bias()[channel_ + i];
    }
    if (adds_zeros_) add_zeros(sums);
#pragma unroll
    for (int i = 0; i < kTogether; ++i, row_to_ += channel_step_) {
      store(sums[i], exists_ && channel_ + i < args_.rows);
    }
  }

  // To the destination, or the fringe, whose sums are float32.
  __device__ __forceinline__ void store(float sum, bool wanted) const {
    if constexpr (std::is_same_v<T, float>) {
      store_global(row_to_, {sum}, wanted);
    } else {
      Element<T>::template store<1>(reinterpret_cast<T*>(row_to_), {sum}, wanted && !is_fringe_);
      store_global(reinterpret_cast<float*>(row_to_), {sum}, wanted && is_fringe_);
    }
  }

  __device__ __forceinline__ void add_zeros(float (&sums)[kTogether]) const {
#pragma unroll 1
    for (int32_t tap = 0; tap < args_.taps_w; ++tap) {
      if (tap >= first_tap_ && tap < end_tap_) continue;
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        sums[i] += shared_.zeros()[tap * args_.rows + channel_ + i];
      }
    }
  }

  // Writes this band's sums of the columns beside its own to the fringe.
  __device__ __forceinline__ void write_beside() {
    const int32_t columns = args_.fringe_columns();
#pragma unroll 1
    for (int32_t i = thread_; i < columns * args_.rows; i += kMathThreads) {
      const int32_t channel = args_.fringe_div.quotient(i);
      const int32_t at = args_.column_beside(i - channel * columns);
      const Column column = args_.column_of(band_, at);
      float sum = column.side == 0 ? shared_.bias()[channel] : 0;
      const int32_t end = args_.end_tap(at);
#pragma unroll 1
      for (int32_t tap = args_.first_tap(at); tap < end; ++tap) {
        sum += load(staged_ +
                    ((tap * args_.rows + channel) * kStagedPitch + args_.pixel_of(at, tap)) * 4);
      }
      if (column.exists) {
        args_.fringe[args_.fringe_at(column, image_, row_) + channel * columns] = sum;
      }
    }
  }

  static __device__ __forceinline__ float load(uint32_t at) {
    float value[1];
    load_shared(at, value);
    return value[0];
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t thread_;  // its column of a band, too
  const bool has_zeros_;
  const int32_t first_tap_, end_tap_;  // that the column has in its band
  const uint32_t staged_;
  // This thread's column in the band: whether it has one, and where that belongs.
  bool exists_ = false, is_fringe_ = false, has_bias_ = false, adds_zeros_ = false;
  Unit* first_to_ = nullptr;
  int64_t row_step_ = 0, channel_step_ = 0;
  // What is being written.
  int32_t band_ = 0, image_ = 0, row_ = 0, channel_;
  Unit* row_to_ = nullptr;
  uint32_t parity_ = 0;
};

}  // namespace haloconv::few_channels
