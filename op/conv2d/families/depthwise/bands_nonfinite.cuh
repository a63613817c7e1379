// What infinities and NaN make of outputs.
//
// A band matrix holds zeros, whose products with them would be NaN. So planes get finite values in
// their place (finite_words()), and which values they were is kept as bits: a value has one that
// says whether it is +infinity or NaN, and one that says whether it is -infinity or NaN. Of outputs
// the same two bits say which infinities they meet; both make NaN of an output.
//
// The thread that brings pixels stores their bits. Before a warp adds the last row to its oldest
// outputs, it adds what their bits say, if there may be any. To this end each of its lanes has 8
// outputs of a channel, and looks at windows of 16 pixels, all outputs at a time: with each tap the
// bits of a window move on.
//
// Infinite weights need no care: they stand in band matrices where taps are, meet nothing else, and
// make of a finite value in an infinity's place what they make of the infinity.
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/depthwise/band_filters.cuh"
#include "conv2d/families/depthwise/band_words.cuh"

namespace haloconv::depthwise {

// Infinities and NaN become 1 to 2 with their signs. An infinite weight makes of these what it
// makes of infinities.
template <class T>
__device__ __forceinline__ uint32_t finite_words(uint32_t word) {
  constexpr uint32_t kHighestOfExponents = 0x40004000;
  return word & ~(nonfinite_mask<T>(word) & kHighestOfExponents);
}

// Of a channel's two pixels, in all bits of a byte each: whether they are +infinity or NaN, and
// whether they are -infinity or NaN.
template <class T>
__device__ __forceinline__ uint32_t nonfinite_bytes(uint32_t word) {
  const uint32_t nonfinite = at_least<kInfinity<T>>(word);
  const uint32_t nan = at_least<kInfinity<T> + 1>(word);
  return permuted(nonfinite & (nan | ~word), nonfinite & (nan | word), 0xfdb9);
}

// In a block's shared memory.
template <int kTaps>
class BandsNonfinite {
 public:
  // at: of band_nonfinite_bytes().
  __device__ __forceinline__ explicit BandsNonfinite(uint32_t at)
      : at_(at), own_until_(kept(at + threadIdx.x / 32 * 4)) {}

  // Before any row, by all threads of the block.
  __device__ __forceinline__ void clear() const {
    static_assert(kWindows - kBits == kBandThreads * 16 && kBits <= kBandThreads * 4);
    if (threadIdx.x < kBits / 4) store_shared_bits(at_ + threadIdx.x * 4, 0u);
    store_zeros(at_ + kBits + threadIdx.x * 16);
  }

  // Of a row of the source: what this thread has brought, both pixels of each of 8 channels.
  template <class T>
  __device__ __forceinline__ void put(int32_t row, const uint32_t (&words)[8]) const {
    const uint32_t thread = hidden(threadIdx.x);
    const uint32_t eight = thread % kBandEights, place = thread / kBandEights;
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) bits |= nonfinite_bytes<T>(words[i]) & 0x01010101u << i;
    store_shared_bits(bits_of(row, eight) + place * 4, bits);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {  // the warps that have these channels
      if ((bits & 0x03030303u << 2 * i) != 0) {
        store_shared_bits(at_ + (eight * 4 + i) * 4, static_cast<uint32_t>(row + kTaps));
      }
    }
  }

  // Of this warp's outputs, those that this row or a later one completes meet neither infinities
  // nor NaN of rows that were put before.
  __device__ __forceinline__ uint32_t until() const {
    uint32_t until;
    load_shared_bits(own_until_, until);
    return until;
  }

  // Adds what they are to the outputs of both channels that the row completes; as BandSums has
  // them. For each row before until(), one after the other. chunk: of a plane, where the segment
  // `lane` % 16 begins.
  //
  // The whole block waits for this, so of a few infinities the time is that of one warp's way
  // through it. Rows that have none take the shortest.
  __device__ __forceinline__ void add(int32_t row, uint32_t until, uint32_t chunk,
                                      const BandFilters& filters, float (&first)[4],
                                      float (&second)[4]) const {
    const uint32_t thread = hidden(threadIdx.x);  // so that no register is taken beside add()
    const uint32_t lane = thread % 32, warp = thread / 32, channel = lane / 16;
    const uint32_t own = at_ + kWindows + thread * 4;
    const uint32_t taps = taps_of(warp * kWarpChannels + channel);
    uint32_t state;
    load_shared_bits(at_ + kStates + warp * 4, state);
    // The row is one of those that were put for this warp, or the next one is, which may have been
    // put meanwhile.
    if (until >= static_cast<uint32_t>(row + kTaps)) state |= kMayMeetRow;
    const bool has_begun = __all_sync(~0u, (state & kBegun) != 0) != 0;
    state = __shfl_sync(~0u, state, 0);
    __syncwarp();  // all have read it
    if (!has_begun) state |= begin(warp, lane, own, filters);
    if ((state & kTookRow) != 0) forget_row(row - 1, warp, chunk);
    uint32_t rows = state & kMetRows, met = 0;
    const uint32_t kept = state & (kHasZeros | kBegun);
    if ((state & kMayMeetRow) != 0) {
      uint32_t windows[kTaps];
#pragma unroll
      for (int r = 0; r + 1 < kTaps; ++r) load_shared_bits(own + ring(row, r), windows[r]);
      windows[kTaps - 1] = take_row(row, warp, chunk, warp % 4 * kWarpChannels + channel);
      store_shared_bits(own + ring(row, kTaps - 1), windows[kTaps - 1]);
      if (__any_sync(~0u, windows[kTaps - 1] != 0) != 0) rows |= 1u << (kTaps - 1);
      if (__popc(static_cast<int32_t>(rows)) > 2) {
#pragma unroll
        for (int r = 0; r < kTaps; ++r) met |= met_by(windows[r], taps + r * kRowBytes);
        rows |= kAddedRows;
      }
    }
    const uint32_t took_row = (state & kMayMeetRow) != 0 ? kTookRow : 0;
    store_shared_bits(at_ + kStates + warp * 4, kept | took_row | (rows & kMetRows) >> 1);
    if (rows < kAddedRows) {
      for (uint32_t left = rows; left != 0; left &= left - 1) {
        const int32_t r = __ffs(static_cast<int32_t>(left)) - 1;
        uint32_t window;
        load_shared_bits(own + ring(row, r), window);
        met |= met_by(window, taps + r * kRowBytes);
      }
    }
    if ((state & kHasZeros) != 0) met |= met_by_zeros(row, rows & kMetRows, own, taps);
    // No later output meets this row. So all windows are zero when none is near.
    store_shared_bits(own + ring(row, 0), 0u);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t of = __shfl_sync(~0u, met, i / 2 * 16 + i % 2 * 8 + lane / 4) >> lane % 4;
      float (&sums)[4] = i < 2 ? first : second;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& sum = sums[i % 2 * 2 + j];
        if ((of & 1u << 8 * j) != 0) sum += INFINITY;
        if ((of & 1u << (16 + 8 * j)) != 0) sum -= INFINITY;
      }
    }
  }

 private:
  // From the beginning: of each warp, the first row that completes outputs which meet none; its
  // state; the bits of four rows of the source, a word for what a thread has brought; a ring of
  // rows' windows, one of each lane; the taps.
  static constexpr uint32_t kStates = kBandWarps * 4, kBits = 2 * kStates;
  static constexpr uint32_t kWindows = kBits + 4 * kBandThreads * 4;
  static constexpr uint32_t kRows = kTaps == 3 ? 4 : 8;  // a power of 2
  static constexpr uint32_t kRowBytes = 16, kMostTaps = 7;
  static constexpr uint32_t kTapsAt = kWindows + kRows * kBandThreads * 4;
  static_assert(kTapsAt + kBandChannels * kTaps * kRowBytes == band_nonfinite_bytes(kTaps));
  // A warp's state: which rows of the taps meet windows that are not zero when the next row comes;
  // whether the row before was taken; whether weights are zero; whether the warp has met any.
  static constexpr uint32_t kMetRows = (1u << kTaps) - 1, kTookRow = 1u << 8, kHasZeros = 1u << 9,
                            kBegun = 1u << 10, kMayMeetRow = 1u << 12;
  static constexpr uint32_t kAddedRows = 1u << 11;  // beside the rows: they have been added

  static __device__ __forceinline__ void store_zeros(uint32_t at) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(0) : "memory");
  }

  // Byte i of a thread's word: of its first and second pixels, whether they are +infinity or NaN,
  // and whether they are -infinity or NaN. Bit i of each byte: of the channel i.
  __device__ __forceinline__ uint32_t bits_of(int32_t row, uint32_t eight) const {
    return at_ + kBits + ((row & 3) * kBandEights + eight) * (kBandThreads / kBandEights * 4);
  }
  // From a lane's first window to that which row r of the taps meets.
  static __device__ __forceinline__ uint32_t ring(int32_t row, int32_t r) {
    return ((row - (kTaps - 1) + r) & static_cast<int32_t>(kRows - 1)) * (kBandThreads * 4);
  }
  // Of a channel's taps there are 8 halves of words in a row. The first are selectors of
  // permuted(), which make of a window what the tap makes of it: its halves in turns if it is
  // negative, and nothing if it does not exist. The last one has bits of those that are zero.
  __device__ __forceinline__ uint32_t taps_of(uint32_t channel) const {
    return at_ + kTapsAt + channel * (kTaps * kRowBytes);
  }

  // Of a row: a window of 8 pairs of pixels, a bit each. Its bytes are those of a thread's word.
  __device__ __forceinline__ uint32_t take_row(int32_t row, uint32_t warp, uint32_t chunk,
                                               uint32_t channel) const {
    uint32_t window = 0;
    const uint32_t at = chunk * 16;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t words[4];
      load_shared_bits(bits_of(row, warp / 4) + at + i * 16, words);
#pragma unroll
      for (int j = 0; j < 4; ++j) window += (words[j] >> channel & 0x01010101) << (4 * i + j);
    }
    return window;
  }
  // A row that all have taken.
  __device__ __forceinline__ void forget_row(int32_t row, uint32_t warp, uint32_t chunk) const {
    const uint32_t at = bits_of(row, warp / 4) + chunk * 16;
    store_zeros(at);
    store_zeros(at + 16);
  }

  // What a row of taps makes of a window. Of 8 outputs, the bytes of even and odd ones are in turns
  // as those of pixels are, of which these meet the same, or the others.
  static __device__ __forceinline__ uint32_t met_by(uint32_t window, uint32_t taps) {
    uint32_t selectors[4], met = 0;
    load_shared_bits(taps, selectors);
    const uint32_t others = others_of(window);
#pragma unroll
    for (int s = 0; s < static_cast<int>(kMostTaps); ++s) {
      met |= permuted(s % 2 == 0 ? window : others, 0, selectors[s / 2] >> s % 2 * 16) >> s / 2;
    }
    return met;
  }
  static __device__ __forceinline__ uint32_t others_of(uint32_t window) {
    return permuted(window, window >> 1, 0x6341);
  }

  // What weights that are zero make of the windows that these rows meet: NaN of all that they meet.
  static __device__ __forceinline__ uint32_t met_by_zeros(int32_t row, uint32_t rows, uint32_t own,
                                                          uint32_t taps) {
    uint32_t met = 0;
#pragma unroll 1
    for (uint32_t left = rows; left != 0; left &= left - 1) {
      const int32_t r = __ffs(static_cast<int32_t>(left)) - 1;
      uint32_t window;
      uint16_t zeros;
      load_shared_bits(own + ring(row, r), window);
      load_shared_bits(taps + r * kRowBytes + kMostTaps * 2, zeros);
      window |= permuted(window, 0, 0x1032);
#pragma unroll
      for (int s = 0; s < static_cast<int>(kMostTaps); ++s) {
        if ((zeros >> s & 1) != 0) met |= (s % 2 == 0 ? window : others_of(window)) >> s / 2;
      }
    }
    return met;
  }

  // Finds the warp's taps, a lane every 32nd of their halves of words; returns its state.
  __device__ __forceinline__ uint32_t begin(uint32_t warp, uint32_t lane, uint32_t own,
                                            const BandFilters& filters) const {
    constexpr uint32_t kHalves = kWarpChannels * kTaps * kRowBytes / 2;
    static_assert(kRowBytes / 2 == kMostTaps + 1);
    for (uint32_t i = 0; i < kRows; ++i) store_shared_bits(own + i * (kBandThreads * 4), 0u);
    uint32_t has_zeros = 0;
#pragma unroll
    for (uint32_t i = 0; i < kHalves; i += 32) {
      const uint32_t half = i + lane, s = half % (kMostTaps + 1);
      const uint32_t row = half / (kMostTaps + 1);  // of both channels' taps
      const bool exists = half < kHalves && s < static_cast<uint32_t>(filters.taps_w);
      uint32_t weight = 1;
      if (exists) {
        weight = filters.bits(static_cast<int32_t>(warp * kWarpChannels + row / kTaps),
                              static_cast<int32_t>(row % kTaps), static_cast<int32_t>(s));
      }
      const uint32_t zeros = __ballot_sync(~0u, (weight & 0x7fff) == 0);
      uint32_t stored = !exists ? 0x4444 : weight < 0x8000 ? 0x3210 : 0x1032;
      if (s == kMostTaps) stored = zeros >> (lane & ~kMostTaps) & ((1u << kMostTaps) - 1);
      if (half < kHalves) {
        store_shared_bits(taps_of(warp * kWarpChannels) + half * 2, static_cast<uint16_t>(stored));
      }
      has_zeros |= zeros;
    }
    __syncwarp();
    return has_zeros != 0 ? kHasZeros | kBegun : kBegun;
  }

  uint32_t at_, own_until_;
};

}  // namespace haloconv::depthwise
