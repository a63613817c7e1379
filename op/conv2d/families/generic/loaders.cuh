// How a tile's operands come to shared memory as [k][row or column].
#pragma once

#include "conv2d/device/site.cuh"
#include "conv2d/families/generic/tile.cuh"

namespace haloconv::generic {

// Neighbouring threads read along the tile's fixed axis (its rows or columns) or along the
// reduction, whichever is contiguous in memory.
enum class Lanes { kFixed, kReduction };

// A gathered operand: element (k, i) is where the moving site k of a step and the fixed site i of
// the tile meet. MakeSite(step_index) gives the moving sites.
template <class T, int kThreads, int kFixed, int kK, int kPitch, Lanes kLanes, bool kHasOne,
          class MakeSite>
class GatherLoader {
  using Acc = AccumulatorOf<T>;
  static constexpr int kElements = kFixed * kK / kThreads;
  static_assert(kElements * kThreads == kFixed * kK);
  static_assert(kThreads % kFixed == 0 || kFixed % kThreads == 0);
  static_assert(kThreads % kK == 0);

 public:
  struct Shared {
    Site fixed[kFixed];
    Site moving[2][kK];
  };

  // `shared.fixed` is filled by make_fixed(i); a barrier must follow before the first fetch.
  template <class MakeFixed>
  __device__ __forceinline__ GatherLoader(Shared& shared, const T* source, int32_t h, int32_t w,
                                          MakeFixed make_fixed, MakeSite make_site)
      : shared_(shared), source_(source), h_(h), w_(w), make_site_(make_site) {
    for (int i = threadIdx.x; i < kFixed; i += kThreads) shared.fixed[i] = make_fixed(i);
  }

  __device__ __forceinline__ void prepare(int32_t step) {
    if (threadIdx.x < kK) shared_.moving[step % 2][threadIdx.x] = make_site_(step, threadIdx.x);
  }

  __device__ __forceinline__ void fetch(int32_t step) {
    const Site* moving = shared_.moving[step % 2];
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const Site a = moving[k(e)];
      const Site b = shared_.fixed[fixed(e)];
      Acc value = gather_element(source_, a, b, h_, w_);
      if (kHasOne && b.h == kOne) value = Acc(1);
      values_[e] = value;
    }
  }

  __device__ __forceinline__ void commit(Acc (&target)[kK][kPitch]) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) target[k(e)][fixed(e)] = values_[e];
  }

 private:
  __device__ __forceinline__ static int k(int e) {
    if constexpr (kLanes == Lanes::kReduction) {
      return threadIdx.x % kK;
    } else if constexpr (kThreads >= kFixed) {
      return threadIdx.x / kFixed + e * (kThreads / kFixed);
    } else {
      return e / (kFixed / kThreads);
    }
  }
  __device__ __forceinline__ static int fixed(int e) {
    if constexpr (kLanes == Lanes::kReduction) {
      return threadIdx.x / kK + e * (kThreads / kK);
    } else if constexpr (kThreads >= kFixed) {
      return threadIdx.x % kFixed;
    } else {
      return threadIdx.x + e % (kFixed / kThreads) * kThreads;
    }
  }

  Shared& shared_;
  const T* source_;
  int32_t h_, w_;
  MakeSite make_site_;
  Acc values_[kElements];
};

// The packed filter: rows of the reduction, each kM values at a distance of `pitch`; the steps are
// fetched in order.
template <class Acc, int kThreads, int kM, int kK, int kPitch>
class PackedLoader {
  using Vec = Vector<Acc>;
  static constexpr int kVectors = kM * kK / Vec::kSize;
  static constexpr int kEach = (kVectors + kThreads - 1) / kThreads;

 public:
  __device__ __forceinline__ PackedLoader(const Acc* packed, int32_t pitch)
      : next_(packed), pitch_(pitch) {}

  __device__ __forceinline__ void prepare(int32_t) {}

  __device__ __forceinline__ void fetch(int32_t) {
    each([&](int e, int k, int m) {
      values_[e] = *reinterpret_cast<const Vec*>(next_ + (int64_t{k} * pitch_ + m));
    });
    next_ += int64_t{kK} * pitch_;
  }

  __device__ __forceinline__ void commit(Acc (&target)[kK][kPitch]) {
    each([&](int e, int k, int m) { *reinterpret_cast<Vec*>(&target[k][m]) = values_[e]; });
  }

 private:
  template <class Body>
  __device__ __forceinline__ static void each(Body body) {
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int vector = threadIdx.x + e * kThreads;
      if (kVectors % kThreads != 0 && vector >= kVectors) break;
      const int first = vector * Vec::kSize;
      body(e, first / kM, first % kM);
    }
  }

  const Acc* next_;
  int32_t pitch_;
  Vec values_[kEach];
};

}  // namespace haloconv::generic
