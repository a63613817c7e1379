"""The forward pass of a convolution whose rows or columns are cut among ranks."""

from torch import Tensor

from haloconv.distributed.axis import Axis, Flow
from haloconv.distributed.halo import Block, Source
from haloconv.distributed.parts import Operators
from haloconv.distributed.sweep import Box, Sweep


class Forward(Sweep):
    """Tensors: input, weight, bias, scale, shift, residual; all are a rank's own parts.

    After the lines of rows and columns come those along which input channels are cut.
    """

    def __init__(self, rows: Axis, columns: Axis, operators: Operators) -> None:
        super().__init__(Flow(rows, True), Flow(columns, True), [4])
        self.axes = (rows, columns)
        self.operators = operators

    def own(self, ranks, tensors):
        return [self._compute(self.block(ranks, tensors[0]), self.target(ranks), ranks, tensors)]

    def finish(self, source, boxes, halos, ranks, tensors, results):
        (output,) = results
        whole = Block(output, *self.target(ranks))
        for box in boxes:
            if all(box):
                whole.take(*box).copy_(self._compute(source, box, ranks, tensors))
        return [output]

    def whole(self, source, ranks, tensors):
        return [self._compute(source, self.target(ranks), ranks, tensors)]

    def _compute(self, source: Source, box: Box, ranks, tensors) -> Tensor:
        """The box of the output, as far as it follows from the source."""
        input, weight, bias, scale, shift, residual = tensors
        if not all(box):
            return input.new_empty(input.size(0), weight.size(0), *(i.length for i in box))
        if residual is not None:
            residual = Block(residual, *self.target(ranks)).take(*box)
        known = (source.rows, source.columns)
        meetings = [a.meeting(out, i) for a, out, i in zip(self.axes, box, known, strict=True)]
        if None in meetings:  # the box reads nothing but zeros
            size = (axis.reach(output).length for axis, output in zip(self.axes, box, strict=True))
            part, padding = input.new_zeros(*input.shape[:2], *size), (0, 0, 0, 0)
        else:
            rows, columns = meetings
            part = source.take(rows.input, columns.input)
            padding = (rows.before, rows.after, columns.before, columns.after)
        tensors = (part, weight, bias, scale, shift, residual)
        return self.operators.forward(tensors, padding, ranks[2:])
