// The pointer by which torch's autograd owns its nodes.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/headeronly/version.h>

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
#include <memory>
#else
#include <c10/util/intrusive_ptr.h>
#endif

namespace haloconv {

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13

template <class Node>
using NodePointer = std::shared_ptr<Node>;

// Deleted by torch's own function, which takes long chains apart without recursion.
template <class Node>
NodePointer<Node> make_node() {
  return {new Node, torch::autograd::deleteNode};
}

#else  // since 2.13 nodes count their owners themselves

template <class Node>
using NodePointer = c10::intrusive_ptr<Node>;

template <class Node>
NodePointer<Node> make_node() {
  return c10::make_intrusive<Node>();
}

#endif

}  // namespace haloconv
