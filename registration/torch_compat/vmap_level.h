// The level of vmap at which a batching rule is called, from functorch's own parts.
#pragma once

#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/PlumbingHelper.h>

#include <cstdint>

namespace haloconv::vmap {

// A tensor at one level of vmap; its batch, if it has one, is dimension 0.
struct Operand {
  at::Tensor value;
  bool batched = false;
};

// The current level of vmap. While this lives, calls are outside it.
class Level {
 public:
  Level() {
    const auto layer = at::functorch::maybeCurrentDynamicLayer();
    TORCH_CHECK(layer.has_value(), "haloconv: a tensor of torch.vmap was used outside of it");
    id_ = layer->layerId();
  }

  Operand unwrap(const at::Tensor& tensor) const {
    const auto [value, dim] = at::functorch::unwrapTensorAtLevel(tensor, id_);
    return dim.has_value() ? Operand{value.movedim(*dim, 0), true} : Operand{value, false};
  }

  at::Tensor wrap(const at::Tensor& value) const {
    return at::functorch::makeBatched(value, 0, id_);
  }

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_{at::DispatchKey::FuncTorchBatched};
  int64_t id_ = 0;
};

}  // namespace haloconv::vmap
