"""Linear layers of images, as convolutions of one tap.

A linear layer of a tensor (n, h, w, c) is a 1x1 convolution of the same values seen as
(n, c, h, w), with channels innermost:

    x ── linear ── y    =    x ── permute ── conv2d ── permute ── y

As a convolution it can take an activation, a factor of each channel and an addition with it. The
permutations are views. Those that undo each other go, and an activation comes before the one that
follows the convolution, so that it stands right behind that.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Graph, Node

from haloconv.fx.fusion import is_activation, value_of

_LINEAR = {F.linear, torch.ops.aten.linear.default}
_PERMUTE = {torch.permute, torch.ops.aten.permute.default, "permute"}
_TO_IMAGE, _FROM_IMAGE = (0, 3, 1, 2), (0, 2, 3, 1)  # from (n, h, w, c), and back


def as_convolutions(graph: Graph) -> list[Node]:
    """Makes the graph's linear layers of images, in 16-bit types, convolutions, and returns these.

    The nodes' meta must describe their values, as in graphs of torch.compile.
    """
    return [node for node in list(graph.nodes) if _as_convolution(node)]


def _as_convolution(node: Node) -> bool:
    if node.op != "call_function" or node.target not in _LINEAR:
        return False
    given = dict(zip(("input", "weight", "bias"), node.args, strict=False)) | node.kwargs
    input, weight, bias = given["input"], given["weight"], given.get("bias")
    x, w, y = map(value_of, (input, weight, node))
    if x is None or w is None or y is None or x.dim() != 4 or w.dim() != 2:
        return False
    if y.dtype not in (torch.float16, torch.bfloat16):  # TF32 may be allowed for only one of both
        return False
    if not x.is_contiguous():  # as a convolution, its result would have other strides
        return False
    graph = node.graph
    with graph.inserting_before(node):
        filter = graph.call_method("view", (weight, *w.shape, 1, 1))
        filter.meta = _with_value(weight, w.view(*w.shape, 1, 1))
        image = _permuted(input, _TO_IMAGE)
    node.target, node.args, node.kwargs = torch.conv2d, (image, filter, bias), {}
    node.meta = _with_value(node, y.permute(_TO_IMAGE))
    if image is not input and not input.users and _dims_of(input) is not None:
        graph.erase_node(input)
    _permute_later(node)
    return True


def _permute_later(image: Node) -> None:
    """Gives those that use (n, h, w, c) the image that is now in its place."""
    users = list(image.users)
    if len(users) == 1 and is_activation(users[0]) and users[0].args[0] is image:
        (following,) = users
        following.meta = _with_value(following, value_of(following).permute(_TO_IMAGE))
        _permute_later(following)
        return
    if all(_dims_of(user) == _TO_IMAGE for user in users):
        for user in users:
            user.replace_all_uses_with(image)
            image.graph.erase_node(user)
        return
    with image.graph.inserting_after(image):
        back = _permuted(image, _FROM_IMAGE)
    image.replace_all_uses_with(back, delete_user_cb=lambda user: user is not back)


def give_back(node: Node) -> None:
    """Makes a convolution of as_convolutions() a linear layer again."""
    graph = node.graph
    image, filter, bias = node.args
    with graph.inserting_before(node):
        pixels = _permuted(image, _FROM_IMAGE)
    node.target, node.args = F.linear, (pixels, filter.args[0], bias)
    value = value_of(node)
    node.meta = _with_value(node, value.permute(_FROM_IMAGE))
    with graph.inserting_after(node):
        result = _permuted(node, _TO_IMAGE)
    node.replace_all_uses_with(result, delete_user_cb=lambda user: user is not result)
    graph.erase_node(filter)


def of_image(image: Tensor, filter: Tensor, bias: Tensor | None) -> Tensor:
    """A 1x1 convolution by torch's linear layer; the image has channels innermost."""
    pixels = F.linear(image.permute(_FROM_IMAGE), filter.flatten(1), bias)
    return pixels.permute(_TO_IMAGE)


def _permuted(node: Node, dims: tuple[int, ...]) -> Node:
    """The node's value with these dimensions, by a new node unless one undoes another."""
    undone = {_TO_IMAGE: _FROM_IMAGE, _FROM_IMAGE: _TO_IMAGE}[dims]
    if _dims_of(node) == undone:
        return node.args[0]
    permuted = node.graph.call_method("permute", (node, *dims))
    permuted.meta = _with_value(node, value_of(node).permute(dims))
    return permuted


def _dims_of(node: Node) -> tuple[int, ...] | None:
    """The order of a permutation of four dimensions; None if the node is none."""
    if node.target not in _PERMUTE or node.kwargs:
        return None
    dims = node.args[1] if len(node.args) == 2 else node.args[1:]
    return tuple(dim % 4 for dim in dims) if len(dims) == 4 else None


def _with_value(node: Node, value: Tensor) -> dict:
    """The node's meta with another value."""
    return node.meta | {name: value for name in ("val", "example_value") if name in node.meta}
