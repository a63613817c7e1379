// Starts the kernels: each file of instances has those of one type.
#pragma once

#include <stdexcept>
#include <type_traits>

#include "conv2d/families/pointwise/instances.h"
#include "conv2d/families/pointwise/kernel.cuh"
#include "conv2d/families/pointwise/paired_kernel.cuh"
#include "conv2d/families/pointwise/wgrad_kernel.cuh"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::pointwise {

template <class Arguments>
void launch_kernel(void (*kernel)(Arguments), const Arguments& args, unsigned blocks, int shared,
                   cudaStream_t stream) {
  allow_shared_bytes(kernel, shared);
  kernel<<<blocks, kThreads, shared, stream>>>(args);
  check_launch("pointwise");
}

// Calls body.template operator()<rows, columns>() with the tile as constants.
template <class Body>
void with_tile(const Tile& tile, Body body) {
  switch (tile.rows * 1000 + tile.columns) {
    case 64064:
      return body.template operator()<64, 64>();
    case 64128:
      return body.template operator()<64, 128>();
    case 128064:
      return body.template operator()<128, 64>();
    case 128128:
      return body.template operator()<128, 128>();
  }
  throw std::logic_error("haloconv: no pointwise kernel has this tile");
}

template <class T>
void launch_instance(const Plan& plan, const Arguments& args, unsigned blocks,
                     cudaStream_t stream) {
  with_tile(plan.tile, [&]<int kRows, int kColumns>() {
    const bool dgrad = plan.direction == Direction::kDgrad;
    launch_kernel(plan.spread ? pointwise_kernel<T, kRows, kColumns, true, true>
                  : dgrad     ? pointwise_kernel<T, kRows, kColumns, true, false>
                              : pointwise_kernel<T, kRows, kColumns, false, false>,
                  args, blocks, shared_bytes(plan.tile), stream);
  });
}

template <class T>
void launch_wgrad_instance(const WgradPlan& plan, const WgradArguments& args, unsigned blocks,
                           cudaStream_t stream) {
  with_tile(plan.tile, [&]<int kRows, int kColumns>() {
    launch_kernel(
        plan.with_bias ? pointwise_wgrad_kernel<T, kRows, kColumns, true>
                       : pointwise_wgrad_kernel<T, kRows, kColumns, false>,
        args, blocks,
        shared_bytes(plan.tile, std::is_same_v<T, float>) + (plan.with_bias ? kOnesBytes : 0),
        stream);
  });
}

// Calls body.template operator()<columns, padding>() with the filter's as constants.
template <class Body>
void with_columns(const PairedArguments& args, Body body) {
  switch (args.taps_w * 10 + args.pad_left) {
    case 20:
      return body.template operator()<2, 0>();
    case 30:
      return body.template operator()<3, 0>();
    case 31:
      return body.template operator()<3, 1>();
    case 41:
      return body.template operator()<4, 1>();
  }
  throw std::logic_error("haloconv: no paired kernel has these columns");
}

template <class T>
void launch_paired_instance(const WgradPlan& plan, const PairedArguments& args,
                            cudaStream_t stream) {
  with_columns(args, [&]<int kTaps, int kPadLeft>() {
    launch_kernel(plan.with_bias ? pointwise_paired_kernel<T, kTaps, kPadLeft, true>
                                 : pointwise_paired_kernel<T, kTaps, kPadLeft, false>,
                  args, static_cast<unsigned>(args.product.blocks()), paired_shared_bytes(kTaps),
                  stream);
  });
}

}  // namespace haloconv::pointwise
