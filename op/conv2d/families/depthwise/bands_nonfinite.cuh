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
// bits of a window move on. Of a row with few values that are not finite this is done at once for
// all outputs that meet it, and the rows after it only add. Other rows are kept, and looked at by
// each row of outputs.
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
  // through it. Rows that have none of them take the shortest.
  __device__ __forceinline__ void add(int32_t row, uint32_t until, uint32_t chunk,
                                      const BandFilters& filters, float (&first)[4],
                                      float (&second)[4]) const {
    const uint32_t thread = hidden(threadIdx.x);  // so that no register is taken beside add()
    const uint32_t lane = thread % 32, warp = thread / 32;
    const uint32_t met = at_ + kMet + ring(row) + warp * 128;
    uint32_t state, of[4];
    load_shared_bits(at_ + kStates + warp * 4, state);
    forget_row(row - 1, warp, chunk);
    // The row is one of those that were put for this warp, or the next one is, which may have been
    // put meanwhile.
    if (until >= static_cast<uint32_t>(row + kTaps)) state |= kMayMeetRow;
    if (__any_sync(~0u, state != kBegun) != 0) {
      look(row, __shfl_sync(~0u, state, 0), thread, chunk, filters);
      __syncwarp();
    }
    load_met(met, lane, of);
    __syncwarp();  // all have read it
    store_shared_bits(met + lane * 4, 0u);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t bits = of[i] >> lane % 4;
      float (&sums)[4] = i < 2 ? first : second;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& sum = sums[i % 2 * 2 + j];
        if ((bits & 1u << 8 * j) != 0) sum += INFINITY;
        if ((bits & 1u << (16 + 8 * j)) != 0) sum -= INFINITY;
      }
    }
  }

 private:
  // From the beginning: of each warp, the first row that completes outputs which meet none; its
  // state; the bits of four rows of the source, a word for what a thread has brought; a ring of
  // rows' windows, one of each lane; a ring of what the outputs meet that a row completes, also a
  // word of each lane; the taps.
  static constexpr uint32_t kStates = kBandWarps * 4, kBits = 2 * kStates;
  static constexpr uint32_t kWindows = kBits + 4 * kBandThreads * 4;
  static constexpr uint32_t kRows = kTaps == 3 ? 4 : 8;  // a power of 2
  static constexpr uint32_t kRowBytes = 32, kMostTaps = 7;
  static constexpr int kPairsOfTaps = (kMostTaps + 1) / 2;
  static constexpr uint32_t kMet = kWindows + kRows * kBandThreads * 4;
  static constexpr uint32_t kTapsAt = kMet + kRows * kBandThreads * 4;
  static_assert(kTapsAt + kBandChannels * kTaps * kRowBytes == band_nonfinite_bytes(kTaps));
  // A warp's state: which rows of the taps meet windows that are not zero when the next row comes;
  // whether the warp has met any; whether the row may be one that it meets.
  static constexpr uint32_t kMetRows = (1u << kTaps) - 1, kBegun = 1u << 8, kMayMeetRow = 1u << 9;
  // Windows of a row that are not zero, at most, for spread().
  static constexpr int kFewWindows = 4;

  static __device__ __forceinline__ void store_zeros(uint32_t at) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(0) : "memory");
  }

  // Byte i of a thread's word: of its first and second pixels, whether they are +infinity or NaN,
  // and whether they are -infinity or NaN. Bit i of each byte: of the channel i.
  __device__ __forceinline__ uint32_t bits_of(int32_t row, uint32_t eight) const {
    return at_ + kBits + ((row & 3) * kBandEights + eight) * (kBandThreads / kBandEights * 4);
  }
  // Where a row's words are in a ring.
  static __device__ __forceinline__ uint32_t ring(int32_t row) {
    return (row & static_cast<int32_t>(kRows - 1)) * (kBandThreads * 4);
  }
  // Of a channel's taps there are 8 words in a row, the last one for none: selectors of
  // permuted(), which make of a window and of either_of() it what the tap makes of it. A negative
  // tap takes the window's halves in turns, zero makes NaN of all that is not finite, and one that
  // does not exist makes nothing.
  __device__ __forceinline__ uint32_t taps_of(uint32_t channel) const {
    return at_ + kTapsAt + channel * (kTaps * kRowBytes);
  }

  // Of a row: a window of 8 pairs of pixels, a bit each. Its bytes are those of a thread's word.
  __device__ __forceinline__ uint32_t take_row(int32_t row, uint32_t warp, uint32_t chunk,
                                               uint32_t channel) const {
    uint32_t words[8], halves[2] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t (&half)[4] = reinterpret_cast<uint32_t (&)[4]>(words[4 * i]);
      load_shared_bits(bits_of(row, warp / 4) + chunk * 16 + i * 16, half);
    }
    const uint32_t mask = 0x01010101u << channel;
#pragma unroll
    for (int i = 3; i >= 0; --i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        halves[j] = __funnelshift_l(halves[j], halves[j], 1) | (words[4 * j + i] & mask);
      }
    }
    const uint32_t window = __funnelshift_l(halves[1], halves[1], 4) | halves[0];
    return __funnelshift_r(window, window, channel);
  }
  // A row that all have taken.
  __device__ __forceinline__ void forget_row(int32_t row, uint32_t warp, uint32_t chunk) const {
    const uint32_t at = bits_of(row, warp / 4) + chunk * 16;
    store_zeros(at);
    store_zeros(at + 16);
  }

  // Finds what the outputs meet that this row completes.
  __device__ __forceinline__ void look(int32_t row, uint32_t state, uint32_t thread, uint32_t chunk,
                                       const BandFilters& filters) const {
    const uint32_t lane = thread % 32, warp = thread / 32, channel = lane / 16;
    const uint32_t own = at_ + kWindows + thread * 4;
    const uint32_t taps = taps_of(warp * kWarpChannels + channel);
    if ((state & kBegun) == 0) begin(warp, lane, filters);
    uint32_t rows = state & kMetRows, newest = 0;
    if ((state & kMayMeetRow) != 0) {
      newest = take_row(row, warp, chunk, warp % 4 * kWarpChannels + channel);
      const uint32_t lanes = __ballot_sync(~0u, newest != 0);
      if (rows == 0 && __popc(static_cast<int32_t>(lanes)) <= kFewWindows) {
        if (lanes != 0) spread(row, newest, lanes, warp, lane);
      } else if (lanes != 0) {
        rows |= 1u << (kTaps - 1);
        store_shared_bits(own + ring(row), newest);
      }
    }
    store_shared_bits(at_ + kStates + warp * 4, kBegun | rows >> 1);
    if (rows == 0) return;
    uint32_t pairs[kPairsOfTaps] = {};
#pragma unroll
    for (int r = 0; r < kTaps; ++r) {
      uint32_t window = newest;
      if (r < kTaps - 1) load_shared_bits(own + ring(row - (kTaps - 1) + r), window);
      meet(window, taps + r * kRowBytes, pairs);
    }
    // No later output meets the oldest row. So all windows are zero when none is near.
    store_shared_bits(own + ring(row - (kTaps - 1)), 0u);
    add_met(own + (kMet - kWindows) + ring(row), pairs);
  }

  // Of a row with few windows that are not zero: at once what all outputs meet of it. Each eight
  // lanes have a window, a row of taps each.
  __device__ __forceinline__ void spread(int32_t row, uint32_t window, uint32_t lanes,
                                         uint32_t warp, uint32_t lane) const {
    uint32_t left = lanes, source = __ffs(static_cast<int32_t>(left)) - 1;
#pragma unroll
    for (uint32_t i = 1; i < kFewWindows; ++i) {
      left &= left - 1;
      if (lane / 8 >= i) source = __ffs(static_cast<int32_t>(left)) - 1;
    }
    window = __shfl_sync(~0u, window, source % 32);
    const auto r = static_cast<int32_t>(lane % 8);
    if (source >= 32 || r >= kTaps) return;
    uint32_t pairs[kPairsOfTaps] = {};
    meet(window, taps_of(warp * kWarpChannels + source / 16) + r * kRowBytes, pairs);
    add_met(at_ + kMet + ring(row + kTaps - 1 - r) + (warp * 32 + source) * 4, pairs);
  }

  // Of the outputs that a lane has sums of.
  static __device__ __forceinline__ void load_met(uint32_t met, uint32_t lane, uint32_t (&of)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      load_shared_bits(met + lane / 4 * 4 + (i / 2 * 16 + i % 2 * 8) * 4, of[i]);
    }
  }
  static __device__ __forceinline__ void add_met(uint32_t at,
                                                 const uint32_t (&pairs)[kPairsOfTaps]) {
    uint32_t met;
    load_shared_bits(at, met);
#pragma unroll
    for (int i = 0; i < kPairsOfTaps; ++i) met |= pairs[i] >> i;
    store_shared_bits(at, met);
  }

  // Adds what a row of taps makes of a window. Of 8 outputs, the bytes of even and odd ones are in
  // turns as those of pixels are, of which these meet the same, or the others. Each pair of taps
  // meets pixels that are a pair further on.
  static __device__ __forceinline__ void meet(uint32_t window, uint32_t taps,
                                              uint32_t (&pairs)[kPairsOfTaps]) {
    uint32_t selectors[2][4];
    load_shared_bits(taps, selectors[0]);
    load_shared_bits(taps + 16, selectors[1]);
    const uint32_t others = permuted(window, window >> 1, 0x6341);
    const uint32_t either = either_of(window), either_of_others = either_of(others);
#pragma unroll
    for (int s = 0; s < static_cast<int>(kMostTaps); ++s) {
      pairs[s / 2] |= s % 2 == 0 ? permuted(window, either, selectors[s / 4][s % 4])
                                 : permuted(others, either_of_others, selectors[s / 4][s % 4]);
    }
  }
  // The lower half: what is not finite. The upper one is zero.
  static __device__ __forceinline__ uint32_t either_of(uint32_t window) {
    return (window | window >> 16) & 0xffff;
  }

  // Finds the selectors of the warp's taps, a lane every 32nd of them.
  __device__ __forceinline__ void begin(uint32_t warp, uint32_t lane,
                                        const BandFilters& filters) const {
    constexpr uint32_t kLines = kWarpChannels * kTaps, kSelectors = kLines * kRowBytes / 4;
    static_assert(kRowBytes / 4 == kMostTaps + 1);
    // Both rings, whose rows have 128 bytes of the warp.
    for (uint32_t i = 0; i < 2 * kRows; i += 4) {
      store_zeros(at_ + kWindows + (i + lane / 8) * (kBandThreads * 4) + warp * 128 +
                  lane % 8 * 16);
    }
    const uint32_t s = lane % (kMostTaps + 1);
    const bool exists = s < static_cast<uint32_t>(filters.taps_w);
    uint32_t weights[(kSelectors + 31) / 32];  // loaded together; where there is no tap, another
#pragma unroll
    for (uint32_t i = 0; i < kSelectors; i += 32) {
      const uint32_t line = min((i + lane) / (kMostTaps + 1), kLines - 1);  // of both channels'
      weights[i / 32] =
          filters.bits(static_cast<int32_t>(warp * kWarpChannels), static_cast<int32_t>(line),
                       static_cast<int32_t>(exists ? s : 0));
    }
#pragma unroll
    for (uint32_t i = 0; i < kSelectors; i += 32) {
      const uint32_t weight = weights[i / 32];
      const bool is_zero = (weight & 0x7fff) == 0;
      const uint32_t selector = is_zero ? 0x5454 : weight < 0x8000 ? 0x3210 : 0x1032;
      if (i + lane < kSelectors) {
        store_shared_bits(taps_of(warp * kWarpChannels) + (i + lane) * 4,
                          exists ? selector : 0x6666);
      }
    }
    __syncwarp();
  }

  uint32_t at_, own_until_;
};

}  // namespace haloconv::depthwise
