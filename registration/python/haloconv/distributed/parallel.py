"""Plans for torch.distributed.tensor.parallel.parallelize_module."""

from typing import Literal

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle
from torch.distributed.tensor.placement_types import Placement

_DIMS = {"rows": 2, "columns": 3}


def _dtensor(tensor: Tensor, mesh: DeviceMesh, is_now: Placement, wanted: Placement) -> DTensor:
    if not isinstance(tensor, DTensor):
        tensor = DTensor.from_local(tensor, mesh, [is_now], run_check=False)
    return tensor.redistribute(mesh, [wanted])


class _Style(ParallelStyle):
    """A module whose inputs, outputs and parameters are placed."""

    input_is = input_wanted = output_is = output_wanted = Replicate()
    parameters: dict[str, Placement] = {}  # of convolutions; others are replicated
    gives_local = True

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        return distribute_module(
            module, device_mesh, self._place, self._place_inputs, self._place_outputs
        )

    def _place(self, name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        if not isinstance(module, nn.Conv2d):
            return
        for name, placement in self.parameters.items():
            parameter = getattr(module, name)
            if parameter is not None:
                placed = distribute_tensor(parameter, mesh, [placement])
                module.register_parameter(name, nn.Parameter(placed))

    def _place_inputs(self, module: nn.Module, inputs: tuple, mesh: DeviceMesh) -> tuple:
        return tuple(
            _dtensor(input, mesh, self.input_is, self.input_wanted)
            if isinstance(input, Tensor)
            else input
            for input in inputs
        )

    def _place_outputs(self, module: nn.Module, output: Tensor, mesh: DeviceMesh) -> Tensor:
        output = output.redistribute(mesh, [self.output_wanted])
        return output.to_local() if self.gives_local else output


class Spatial(_Style):
    """A module, or a whole network, whose images are cut by rows or columns.

    Parameters are replicated. ``input_is`` says what an input that is no DTensor is: the "whole"
    input on each rank, or the rank's "part", of the same size on all ranks. ``output`` asks for the
    "whole" output on each rank, the rank's "part", or the "dtensor". All that the module does must
    work on DTensors: activations and sums do; torch's pooling and batch norms do not, because they
    know no halos.
    """

    def __init__(
        self,
        cut: Literal["rows", "columns"] = "rows",
        input_is: Literal["whole", "part"] = "whole",
        output: Literal["whole", "part", "dtensor"] = "whole",
    ) -> None:
        for name, value, known in (
            ("cut", cut, tuple(_DIMS)),
            ("input_is", input_is, ("whole", "part")),
            ("output", output, ("whole", "part", "dtensor")),
        ):
            if value not in known:
                raise ValueError(
                    f"haloconv: expected {name} to be one of {known}, but got {value!r}"
                )
        shard = Shard(_DIMS[cut])
        self.input_wanted = shard
        self.input_is = shard if input_is == "part" else Replicate()
        self.output_wanted = Replicate() if output == "whole" else shard
        self.gives_local = output != "dtensor"


class OutputChannels(_Style):
    """A convolution of which each rank computes some output channels, which are its output.

    InputChannels follows it, as torch's RowwiseParallel follows ColwiseParallel; the two together
    need only one sum over the ranks.
    """

    parameters = {"weight": Shard(0), "bias": Shard(0)}
    output_wanted = Shard(1)


class InputChannels(_Style):
    """A convolution of an input of which each rank has some channels; its output is whole."""

    parameters = {"weight": Shard(1)}
    input_is = input_wanted = Shard(1)


class ChannelGroups(_Style):
    """A convolution with groups, of which each rank has some: of input, weight and output."""

    parameters = {"weight": Shard(0), "bias": Shard(0)}
    input_is = input_wanted = output_wanted = Shard(1)


def plan(model: nn.Module, styles: str = "rows") -> ParallelStyle | dict[str, ParallelStyle]:
    """What parallelize_module takes for the whole model.

    "rows" and "columns" cut the images. "channels" is for a model in which whatever is between
    convolutions works on each channel by itself. It cuts the output channels of one
    convolution and the input channels of the next, in turns, and whole groups if there are any.
    Raises ValueError for any other name.
    """
    if styles in _DIMS:
        return Spatial(styles)
    if styles != "channels":
        raise ValueError(
            "haloconv: expected styles to be 'rows', 'columns' or 'channels', but got "
            + repr(styles)
        )
    found, is_cut = {}, False
    layers = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.Conv2d)]
    for i, (name, layer) in enumerate(layers):
        if is_cut and layer.groups > 1:
            found[name] = ChannelGroups()
        elif is_cut:
            found[name], is_cut = InputChannels(), False
        elif layer.groups == 1 and i + 1 < len(layers):
            found[name], is_cut = OutputChannels(), True
    if is_cut:  # the last of them gives its output whole
        raise ValueError(
            "haloconv: expected a convolution without groups after the last that is cut, "
            f"but the model ends with {layers[-1][0]}"
        )
    return found
