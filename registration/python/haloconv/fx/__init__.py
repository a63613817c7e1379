"""Captured graphs on haloconv's operators: those of torch.compile, torch.export and torch.fx.

>>> compiled = torch.compile(model, backend=haloconv.fx.backend("inductor"))
>>> haloconv.fx.replace_convolutions(exported.graph_module)
"""

from collections.abc import Callable

from torch.fx import Graph, GraphModule

from haloconv import _torch_compat
from haloconv.fx import batch_norm, fusion
from haloconv.fx.convolutions import (
    convolution_of,
    give_back,
    graphs_of,
    modules_of,
    torch_convolutions,
)
from haloconv.fx.decomposition_table import decompositions as decompositions
from haloconv.fx.faster import Left, lay_out_by_time, slower, times_of
from haloconv.models import Replaced


def _replace_in(graph: Graph, prefix: str, result: Replaced, fuse: bool, left: Left) -> None:
    for node in graph.nodes:
        convolution = convolution_of(node)
        if isinstance(convolution, str):
            result.left[prefix + node.name] = convolution
        elif node in left:
            result.left[prefix + node.name] = left[node]
        elif convolution is not None:
            # In place: the node keeps its name and what is known of its result.
            node.target, node.args, node.kwargs = convolution.target, convolution.arguments, {}
            result.replaced.append(prefix + node.name)
    if fuse:
        fused = fusion.fuse(graph)
        result.fused |= {prefix + name: what for name, what in fused.items()}


def replace_convolutions(
    graph: GraphModule | Graph, fuse: bool = False, only_if_faster: bool = False
) -> Replaced:
    """Makes the convolutions of a captured graph haloconv's, in place.

    These are torch's and aten's conv2d, conv1d, conv_transpose2d and conv_transpose1d, and
    aten.convolution unless it is 3-D, also in the graphs of conditions and loops. The result names
    the nodes that were replaced, and those that were left with the reason. Gradients that the graph
    holds already stay torch's: replace before autograd, as backend() does.

    With ``fuse``, what follows a convolution becomes part of it, in haloconv::conv2d_fused and its
    relatives: a batch norm in inference or a factor of each channel, the addition of a tensor of
    the result's shape, and an activation, in this order. Each does so only if nothing else uses the
    value that it takes, and nothing in between changes a tensor in place. The nodes' meta must
    describe their values, as in graphs of torch.export and torch.compile. Results differ by the
    rounding of the batch norm.

    With ``only_if_faster``, the convolutions are timed on random tensors, with the gradients that
    are wanted. Torch's are timed in the graph's layout and with channels innermost, because a
    compiler may lay out the whole graph so. haloconv's are timed with what becomes part of them,
    and torch's with one more pass over the result for it. All are left unless haloconv's take less
    time together. If all images have channels innermost, each convolution that is slower is left.
    Nothing is timed and all are replaced on a CPU, where sizes are not known or memory is short,
    and under torch.use_deterministic_algorithms(True).

    ``graph`` may come from torch.fx.symbolic_trace, torch.export (``exported.graph_module``) or a
    backend of torch.compile. Modules that symbolic_trace does not trace into, such as
    torch.nn.Conv2d, are left: haloconv.replace() takes these, before or after. For inference this
    function can be Inductor's ``post_grad_custom_pre_pass``. Raises TypeError if ``graph`` is no
    graph.
    """
    if not isinstance(graph, (GraphModule, Graph)):
        kind = type(graph).__name__
        raise TypeError(f"expected graph to be a torch.fx.GraphModule or Graph, but got {kind}")
    convolutions = torch_convolutions(graphs_of(graph)) if only_if_faster else {}
    times = times_of(convolutions, (None,), fuse) if only_if_faster else None
    return _replace(graph, fuse, slower(convolutions, times, None) if times else {})


def _replace(graph: GraphModule | Graph, fuse: bool, left: Left) -> Replaced:
    modules = modules_of(graph)
    result = Replaced()
    for name, inside in zip(modules or [""], graphs_of(graph), strict=True):
        _replace_in(inside, name and name + ".", result, fuse, left)
    for module in modules.values():
        module.recompile()
    return result


def backend(
    inner: str | Callable = "inductor", fuse: bool = False, only_if_faster: bool = True
) -> Callable:
    """A backend for torch.compile: replaces the graph's convolutions, then calls ``inner``.

    ``inner`` is the name of a backend or a backend itself; ``fuse`` and ``only_if_faster`` are as
    in replace_convolutions(). Convolutions are replaced before the graph is differentiated, so that
    the gradients are haloconv's too.

    With ``only_if_faster``, haloconv's convolutions are timed in three layouts: the graph's own,
    rows innermost, and channels innermost. The graph gets the fastest layout if it computes the
    same in it and gains at least 10 %. With channels innermost, convolutions that torch computes
    faster stay torch's. Results keep their strides. In a model that uses haloconv's convolutions
    already, such as a routed one, those that torch computes faster become torch's.

    With ``fuse``, batch norms in training become one operator with the addition and the activation
    that follow them, if they are large, of a 16-bit type, and have channels innermost.

    With ``fuse`` and ``only_if_faster``, linear layers of contiguous tensors (n, h, w, c) in 16-bit
    types are timed as 1x1 convolutions with what becomes part of these, and become haloconv's where
    that is faster.
    """
    compile_graph = _torch_compat.backend_of(inner)

    def replace_and_compile(graph_module: GraphModule, inputs, mode=None, options=None, **more):
        left = lay_out_by_time(graph_module, fuse) if only_if_faster else {}
        give_back(left)
        _replace(graph_module, fuse, left)
        if fuse:
            batch_norm.fuse(graph_module.graph)
            graph_module.recompile()
        if inner == "inductor":  # as torch.compile calls it
            second = batch_norm.take_second_gradients
            inductor = _torch_compat.inductor(mode, options, second)
            replace_and_compile.reset = inductor.reset  # torch.compiler.reset() looks for it
            return inductor(graph_module, inputs)
        given = {"mode": mode, "options": options}
        more |= {name: value for name, value in given.items() if value is not None}
        return compile_graph(graph_module, inputs, **more)

    return replace_and_compile
