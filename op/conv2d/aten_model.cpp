#include "conv2d/aten_model.h"

#include <algorithm>
#include <cmath>

#include "chip/scale.h"
#include "conv2d/geometry/met_bytes.h"
#include "conv2d/rates.h"

namespace haloconv {

namespace {

constexpr double kBytesPerMs = 1.5e9;
constexpr double kUntransposedBytesPerMs = 3.8e9;
constexpr double kLaunchMs = 0.008;
constexpr double kNhwcLaunchMs = 0.005;  // of depthwise kernels

// Scales a rate that was measured on an H200 by what bounds it.
class Scaled {
 public:
  Scaled(const Chip& chip, DataType type, bool tf32)
      : peak_per_ms_(peak_rate(chip, type, tf32) / 1e3),
        peak_(peak_rate(chip, type, tf32) / peak_rate(h200(), type, tf32)),
        fma_(chip.flop_rate(fma_rate(chip, type)) / h200().flop_rate(fma_rate(h200(), type))),
        issue_(chip.cycle_rate() / h200().cycle_rate()),
        memory_(memory_scale(chip)) {}

  // FLOP per ms of matrix products, which the tensor cores bound.
  double product(double rate) const { return rate * peak_; }
  // The same for convolutions on tensor cores. On an H200 these wait for their operands, whose rate
  // goes with a chip's cycles; slower tensor cores are the bound themselves.
  double matrix(double rate) const { return std::min(rate * issue_, kMostOfPeak * peak_per_ms_); }
  // The same for ordinary multiply-adds.
  double fma(double rate) const { return rate * fma_; }
  double bytes(double rate) const { return rate * memory_; }

 private:
  // The most that convolutions reach of the tensor cores' rate: 400 of 495 TFLOP/s on an H200.
  static constexpr double kMostOfPeak = 0.82;

  double peak_per_ms_, peak_, fma_, issue_, memory_;
};

// One figure for each direction.
struct Rates {
  double fprop, dgrad, wgrad;

  double of(Direction direction) const {
    switch (direction) {
      case Direction::kFprop:
        return fprop;
      case Direction::kDgrad:
        return dgrad;
      case Direction::kWgrad:
        break;
    }
    return wgrad;
  }
};

bool is_strided(const Conv2dProblem& p) { return p.stride_h > 1 || p.stride_w > 1; }
bool is_dilated(const Conv2dProblem& p) { return p.dilation_h > 1 || p.dilation_w > 1; }
bool is_pointwise(const Conv2dProblem& p) { return p.r == 1 && p.s == 1; }
bool is_depthwise(const Conv2dProblem& p) { return p.groups > 1 && p.group_c() == 1; }
bool has_channels_innermost(const Conv2dProblem& p) { return p.input.c == 1 && p.output.c == 1; }
bool has_eights(const Conv2dProblem& p) { return p.c % 8 == 0 && p.k % 8 == 0; }

// cuDNN's Winograd kernels take these.
bool is_plain_3x3(const Conv2dProblem& p) {
  return p.r == 3 && p.s == 3 && !is_strided(p) && !is_dilated(p);
}

// TFLOP/s with 128 output channels or more (dgrad: input channels).
Rates dense_rates(const Conv2dProblem& p, bool tensor_cores) {
  if (tensor_cores) return {100, 100, 45};
  if (p.type == DataType::kFloat64) {
    return is_pointwise(p) ? Rates{35, 35, 25} : Rates{16, 15, 13.5};
  }
  if (is_pointwise(p)) return is_strided(p) ? Rates{33, 30, 28} : Rates{33, 24, 15};
  if (is_plain_3x3(p)) {
    const double channels = std::sqrt(static_cast<double>(p.group_c() * p.group_k()));
    return {42, 35, std::clamp(0.9 * std::pow(channels, 0.87), 26.0, 140.0)};
  }
  if (is_dilated(p)) return {30, 33, 32};
  if (is_strided(p)) return {32, 30, 28};
  return {36, 50, 31};
}

// cuDNN's kernels for CUDA cores have tiles of 128 channels. If there are fewer, the rest is idle.
double narrow_factor(const Conv2dProblem& p, Direction direction, bool tensor_cores) {
  const bool dgrad = direction == Direction::kDgrad;
  if (tensor_cores || is_pointwise(p) || (dgrad && !is_dilated(p))) return 1;
  const auto rows = static_cast<double>(dgrad ? p.c : p.k);
  if (rows >= 128 || (is_plain_3x3(p) && p.type == DataType::kFloat32 && rows > 16)) return 1;
  return std::pow(0.65, std::log2(128 / rows));
}

// Groups run with tiles made for many channels: TFLOP/s for each channel of a group.
Rates group_rates(DataType type, bool tensor_cores) {
  if (type == DataType::kFloat64) return {0.12, 0.27, 0.15};
  if (!tensor_cores) return {0.6, 0.45, 0.37};
  return type == DataType::kFloat32 ? Rates{2.3, 2.3, 0.85} : Rates{2.4, 2.4, 1.6};
}

// Whether cuDNN's kernels for depthwise layers with channels innermost are slow: a layer of 21
// channels and 4x4 taps was timed. Layers of one row were not.
bool is_slow_depthwise(const Conv2dProblem& p) { return p.r > 1 && (p.s % 2 == 0 || p.c % 8 != 0); }

// Depthwise with channels innermost: cuDNN's kernels, by bytes or picoseconds for each output
// (dgrad: input).
double depthwise_nhwc_ms(const Conv2dProblem& p, Direction direction, const Scaled& scaled) {
  const auto taps = static_cast<double>(p.r * p.s);
  const bool is_float32 = p.type == DataType::kFloat32, is_bfloat16 = p.type == DataType::kBFloat16;
  const bool is_large = taps > 25;
  const auto inputs = static_cast<double>(p.n * p.c) * static_cast<double>(p.h * p.w);
  const auto outputs = static_cast<double>(p.n * p.k) * static_cast<double>(p.p() * p.q());
  const Rates bytes_per_ms = {3.6e9, 2.6e9, 2e9};
  double picoseconds = 0;
  if (!is_float32 && is_slow_depthwise(p)) {
    const Rates of_tap = {2.3, 1.5, 17};
    const double results = direction == Direction::kDgrad ? inputs : outputs;
    return results * taps * of_tap.of(direction) * 1e-9 / scaled.fma(1);
  }
  switch (direction) {
    case Direction::kFprop:
      picoseconds = outputs * (is_float32 ? 0.115 * std::pow(taps, 1.32)
                                          : (is_bfloat16 ? 0.19 : 0.15) * taps);
      break;
    case Direction::kDgrad:
      picoseconds = inputs * (is_float32 ? 0.15 * std::pow(taps, 1.26)
                                         : (is_bfloat16 || is_large ? 0.36 : 0.15) * taps);
      break;
    case Direction::kWgrad:
      picoseconds = outputs * taps * (is_float32 ? is_large ? 4.9 : 0.6 : is_large ? 0.21 : 0.4);
      break;
  }
  return std::max(p.bytes() / scaled.bytes(bytes_per_ms.of(direction)),
                  picoseconds * 1e-9 / scaled.fma(1));
}

// ATen's own depthwise kernels: picoseconds for each element of the larger tensor.
double depthwise_ms(const Conv2dProblem& p, Direction direction) {
  const auto taps = static_cast<double>(p.r * p.s);
  const auto inputs = static_cast<double>(p.n * p.c) * static_cast<double>(p.h * p.w);
  const auto outputs = static_cast<double>(p.n * p.k) * static_cast<double>(p.p() * p.q());
  switch (direction) {
    case Direction::kFprop:
      return outputs * (4.5 + 0.57 * taps) * 1e-9;
    case Direction::kDgrad:
      return inputs * (taps <= 25 ? 17.3 : 0.87 * taps) * 1e-9;
    case Direction::kWgrad:
      break;
  }
  return outputs * (5 + 1.4 * taps) * 1e-9;
}

// A matrix product in TF32 of the tensors as they lie.
double product_tf32_ms(const Conv2dProblem& p, const Scaled& scaled) {
  return p.flop() / scaled.product(500e9) + p.bytes() / scaled.bytes(4.2e9) + 0.012;
}

// 1x1 filters without strides are matrix products on the tensors as they lie. They take longer
// where planes are no whole 16 bytes. The bias gradient is a sum over grad_output in a pass of its
// own.
double pointwise_tf32_ms(const Conv2dProblem& p, Direction direction, bool with_bias,
                         const Scaled& scaled) {
  const bool has_whole_planes = p.h * p.w % 4 == 0;
  if (direction != Direction::kWgrad) {
    return product_tf32_ms(p, scaled) +
           (has_whole_planes ? 0 : p.flop() / scaled.product(415e9) + 0.003);
  }
  const double grads = 4.0 * static_cast<double>(p.n * p.k) * static_cast<double>(p.h * p.w);
  return p.flop() / scaled.product(450e9) + p.bytes() / scaled.bytes(3.7e9) + 0.022 +
         (has_whole_planes ? 0 : p.flop() / scaled.product(235e9) + 0.022) +
         (with_bias ? grads / scaled.bytes(3.1e9) : 0);
}

// cuDNN's other TF32 kernels work on channels_last: most of their time is often the transposes
// there and back.
double tf32_ms(const Conv2dProblem& p, Direction direction, bool with_bias, const Scaled& scaled) {
  if (is_pointwise(p) && !is_strided(p)) return pointwise_tf32_ms(p, direction, with_bias, scaled);
  const bool large = p.r * p.s > 9;
  const Rates flop = large ? Rates{400e9, 200e9, 130e9} : Rates{400e9, 400e9, 220e9};
  const Rates bytes = {1.5e9, 1.3e9, 0.9e9};
  return p.flop() / scaled.matrix(flop.of(direction)) +
         p.bytes() / scaled.bytes(bytes.of(direction)) + 0.02;
}

// The same for 16-bit types with rows innermost. Matrix products need planes that are whole
// vectors; few channels are padded to as many as a kernel has.
double rows_of_16_bits_ms(const Conv2dProblem& p, Direction direction, const Scaled& scaled) {
  const bool is_wgrad = direction == Direction::kWgrad;
  if (is_pointwise(p) && !is_strided(p)) {
    if (is_wgrad) {
      return p.flop() / scaled.matrix(300e9) + p.bytes() / scaled.bytes(2e9) + 0.02;
    }
    const bool is_aligned = p.h * p.w % 8 == 0;
    return std::max(p.flop() / scaled.product(720e9), p.bytes() / scaled.bytes(4.3e9)) + 0.007 +
           (is_aligned ? 0 : p.bytes() / scaled.bytes(2e9) + 0.007);
  }
  const bool is_large = p.r * p.s > 9, is_narrow = std::min(p.group_c(), p.group_k()) < 8;
  // Narrow layers take longer, and so do large filters where a count of channels is no multiple
  // of 8.
  const double longer = is_narrow ? 3 : is_large && !has_eights(p) ? 2.5 : 1;
  const Rates flop = is_large ? Rates{460e9, 300e9, 250e9} : Rates{600e9, 600e9, 600e9};
  return (p.flop() / scaled.matrix(flop.of(direction)) + p.bytes() / scaled.bytes(1.3e9)) * longer +
         (is_wgrad ? 0.03 : 0.01);
}

// cuDNN's rate in TF32 with channels innermost, as a part of that in 16 bits: its tiles have 128
// channels of the result, and its weight gradients of several taps are slow.
double tf32_part(const Conv2dProblem& p, Direction direction) {
  if (p.r * p.s == 1) return 1;
  const bool is_wgrad = direction == Direction::kWgrad;
  const int64_t channels = is_wgrad                         ? std::min(p.c, p.k)
                           : direction == Direction::kFprop ? p.k
                                                            : p.c;
  return (channels <= 64 ? 0.65 : 1.0) *
         (is_wgrad && p.r * p.s <= 9 && !is_strided(p) ? 0.55 : 1.0);
}

// The same for 16-bit types if few channels are computed or summed over, fewer than an
// instruction's tile has. wgrad with few channels was timed only with its bias.
double few_channels_part(const Conv2dProblem& p, Direction direction) {
  if (direction == Direction::kWgrad || p.r * p.s == 1 || is_strided(p)) return 1;
  const bool is_fprop = direction == Direction::kFprop;
  const int64_t computed = is_fprop ? p.k : p.c, summed = is_fprop ? p.c : p.k;
  if (p.r * p.s > 9) return computed <= 32 ? 0.6 : 1;
  return (computed <= 16 ? 0.35 : computed <= 64 ? 0.65 : 1) * (summed <= 16 ? 0.6 : 1);
}

// The bias gradient with channels innermost, a sum in a pass of its own.
double bias_sum_ms(const Conv2dProblem& p, const Scaled& scaled) {
  constexpr double kElementsPerMs = 0.45e9, kBesideMs = 0.006;
  const double elements = static_cast<double>(p.n) * static_cast<double>(p.k) *
                          static_cast<double>(p.p()) * static_cast<double>(p.q());
  return elements / scaled.bytes(kElementsPerMs) + kBesideMs;
}

// For cuDNN's kernels with channels innermost, in each direction: the fraction of its limit that a
// large layer reaches, and the microseconds that launches, waves and tails add. ATen
// is expected to be faster than that by a `doubt`, since our own estimates err as well: a choice
// that is not timed goes to our kernels only if they are surely faster.
struct Pace {
  Rates fraction, beside;
  double doubt = 0.92;
};

// Fitted to PyTorch's best in benchmarks/results/channels_last_tf32_networks_*. Large filters were
// timed on large images alone.
Pace pace_of_tf32(const Conv2dProblem& p) {
  if (p.r * p.s > 9) return {{0.57, 0.45, 0.33}, {1.25, 1.25, 1.25}, 0.8};
  if (p.r * p.s == 1) {
    return is_strided(p) ? Pace{{1, 0.61, 0.63}, {9, 11, 11}}
                         : Pace{{0.89, 0.78, 0.53}, {8, 8, 12}};
  }
  if (!is_strided(p)) return {{1, 0.97, 0.85}, {7, 12, 20}};
  return p.r * p.s <= 4 ? Pace{{0.75, 0.47, 0.24}, {5, 2, 2}}
                        : Pace{{0.87, 0.65, 0.42}, {9, 11, 15}};
}

Pace pace_of_16_bits(const Conv2dProblem& p) {
  if (p.r * p.s > 9) return {{0.57, 0.45, 0.33}, {4, 4, 5}};
  if (p.r * p.s == 1) {
    return is_strided(p) ? Pace{{0.85, 0.65, 0.8}, {8, 6, 4}} : Pace{{0.89, 0.88, 0.9}, {4, 4, 4}};
  }
  if (!is_strided(p)) return {{1, 0.96, 0.9}, {10, 10, 5}};
  return p.r * p.s <= 4 ? Pace{{0.7, 0.48, 0.55}, {6, 6, 5}} : Pace{{0.76, 0.6, 0.63}, {6, 6, 5}};
}

double channels_innermost_ms(const Conv2dProblem& p, Direction direction, double flop_per_ms,
                             const Scaled& scaled) {
  const bool is_float32 = p.type == DataType::kFloat32;
  const Pace pace = is_float32 ? pace_of_tf32(p) : pace_of_16_bits(p);
  const double part = is_float32 ? tf32_part(p, direction) : few_channels_part(p, direction);
  const double limit =
      std::max(met_bytes(p, direction) / scaled.bytes(4.28e9), p.flop() / flop_per_ms);
  return pace.doubt *
         (limit / (pace.fraction.of(direction) * part) + 1e-3 * pace.beside.of(direction));
}

// All that is left: float32 without TF32, float64, groups, and few channels of 16 bits with
// channels innermost.
double other_ms(const Conv2dProblem& p, Direction direction, bool tensor_cores, double bytes_per_ms,
                const Scaled& scaled) {
  double rate =
      dense_rates(p, tensor_cores).of(direction) * narrow_factor(p, direction, tensor_cores);
  if (p.groups > 1) {
    rate = std::min(
        rate, group_rates(p.type, tensor_cores).of(direction) * static_cast<double>(p.group_c()));
  }
  rate *= 1e9;
  const double flop_per_ms = tensor_cores                   ? scaled.matrix(rate)
                             : p.type == DataType::kFloat64 ? scaled.product(rate)
                                                            : scaled.fma(rate);
  return std::max(p.flop() / flop_per_ms, p.bytes() / scaled.bytes(bytes_per_ms)) + kLaunchMs;
}

// On the H200's architecture.
double hopper_ms(const Conv2dProblem& p, Direction direction, bool tensor_cores, bool with_bias,
                 const Scaled& scaled) {
  if (tensor_cores && p.groups == 1) {
    if (p.type == DataType::kFloat32) {
      return has_channels_innermost(p) && std::min(p.c, p.k) >= 4
                 ? channels_innermost_ms(p, direction, scaled.matrix(395e9), scaled)
                 : tf32_ms(p, direction, with_bias, scaled);
    }
    const bool has_many = std::min(p.c, p.k) >= 8;
    // Tensors whose channels are no whole 16 bytes take as long as those with rows innermost.
    if ((p.input.w == 1 && p.output.w == 1) ||
        (has_channels_innermost(p) && has_many && !has_eights(p))) {
      return rows_of_16_bits_ms(p, direction, scaled);
    }
    if (has_channels_innermost(p) && has_many) {
      return channels_innermost_ms(p, direction, scaled.product(790e9), scaled);
    }
  }
  return other_ms(p, direction, tensor_cores, kBytesPerMs, scaled);
}

// On other architectures nothing was timed, so ATen gets the benefit of the doubt: in TF32 it knows
// when its kernels for ordinary multiply-adds, which transpose nothing, are faster; with channels
// innermost it never transposes; and all of it takes less time than expected.
double unmeasured_ms(const Conv2dProblem& p, Direction direction, bool tensor_cores, bool with_bias,
                     const Scaled& scaled) {
  constexpr double kDoubt = 0.8;
  double ms = hopper_ms(p, direction, tensor_cores, with_bias, scaled);
  if (tensor_cores && p.type == DataType::kFloat32) {
    ms = std::min(ms, other_ms(p, direction, false, kUntransposedBytesPerMs, scaled));
    if (is_pointwise(p) && !is_strided(p)) ms = std::min(ms, product_tf32_ms(p, scaled));
  } else if (tensor_cores && has_channels_innermost(p)) {
    ms = std::min(ms, other_ms(p, direction, true, kUntransposedBytesPerMs, scaled));
  }
  return kDoubt * ms;
}

// Padding that differs between opposite sides takes a copy of the input, there or back.
double padding_ms(const Conv2dProblem& p, const Scaled& scaled) {
  if (p.pad_top == p.pad_bottom && p.pad_left == p.pad_right) return 0;
  constexpr double kElementsPerMs = 0.3e9;  // of any type
  const double inputs = static_cast<double>(p.n * p.c) * static_cast<double>(p.h * p.w);
  return inputs / scaled.fma(kElementsPerMs) + 0.003;
}

double unbounded_ms(const Conv2dProblem& p, Direction direction, const Chip& chip, bool tf32,
                    bool with_bias) {
  const Scaled scaled(chip, p.type, tf32);
  if (is_depthwise(p)) {
    const double ms = has_channels_innermost(p)
                          ? depthwise_nhwc_ms(p, direction, scaled) + kNhwcLaunchMs
                          : depthwise_ms(p, direction) / scaled.fma(1) + kLaunchMs;
    return ms + padding_ms(p, scaled);
  }
  const bool tensor_cores = p.type != DataType::kFloat64 && matrix_rate(chip, p.type, tf32) > 0;
  const double ms = chip.compute_capability == h200().compute_capability
                        ? hopper_ms(p, direction, tensor_cores, with_bias, scaled)
                        : unmeasured_ms(p, direction, tensor_cores, with_bias, scaled);
  const bool sums_bias = with_bias && direction == Direction::kWgrad && has_channels_innermost(p);
  return ms + (sums_bias ? bias_sum_ms(p, scaled) : 0) + padding_ms(p, scaled);
}

double least_aten_ms(const Conv2dProblem& p, const Chip& chip, bool tf32) {
  constexpr double kWinogradPart = 0.25;             // of tiles of 4x4 outputs
  constexpr double kDepthwiseBytesPerSecond = 3e12;  // on an H200, as our own depthwise kernels
  const bool is_winograd = is_plain_3x3(p) && matrix_rate(chip, p.type, tf32) == 0;
  const double least = least_ms(p, chip, tf32, is_winograd ? kWinogradPart : 1);
  if (!is_depthwise(p) || has_channels_innermost(p)) return least;
  return std::max(least, p.bytes() / (kDepthwiseBytesPerSecond * memory_scale(chip)) * 1e3);
}

}  // namespace

double estimate_aten_ms(const Conv2dProblem& p, Direction direction, const Chip& chip, bool tf32,
                        bool with_bias) {
  if (p.is_empty()) return kLaunchMs;
  const double ms = unbounded_ms(p, direction, chip, tf32, with_bias);
  // On the chip on which the rates were measured they are right. On another, a rate that was scaled
  // by one resource could be more than another resource allows.
  return chip.source == ChipSource::kMeasured ? ms : std::max(ms, least_aten_ms(p, chip, tf32));
}

}  // namespace haloconv
