"""The gradients of a convolution whose rows or columns are cut among ranks.

Only the output's gradient is exchanged. Then a rank has all rows that read its part of the input,
and computes the gradient of that part and what that part adds to the weight's gradient. The sum of
these over all ranks counts each pair of an input row and an output row once.
"""

from collections.abc import Sequence

from torch import Tensor

from haloconv.distributed.axis import Axis, Flow, Meeting
from haloconv.distributed.halo import Block, Source
from haloconv.distributed.parts import Operators, bias_gradient
from haloconv.distributed.sweep import Box, Sweep


class Backward(Sweep):
    """Tensors: grad_output, and input and weight if they are needed; all are a rank's own parts.

    Results: the gradients of input, weight and bias, each None if it is not wanted.
    """

    def __init__(
        self, rows: Axis, columns: Axis, operators: Operators, wants: Sequence[bool]
    ) -> None:
        dims = [dims if want else None for dims, want in zip((4, 4, 1), wants, strict=True)]
        super().__init__(Flow(rows, False), Flow(columns, False), dims)
        self.axes = (rows, columns)
        self.operators = operators
        self.wants = wants

    def own(self, ranks, tensors):
        return self._compute(self.block(ranks, tensors[0]), ranks, tensors)

    def whole(self, source, ranks, tensors):
        return self._compute(source, ranks, tensors)

    def finish(self, source, boxes, halos, ranks, tensors, results):
        grad_output, input, weight = tensors
        grad_input, grad_weight, grad_bias = results
        target = self.target(ranks)
        if grad_input is not None:
            whole = Block(grad_input, *target)
            for box in boxes:
                if all(box):
                    whole.take(*box).copy_(self._input_gradient(source, box, grad_output, weight))
        if grad_weight is not None:
            for block in halos:
                meetings = self._meetings((block.rows, block.columns), target)
                if meetings is not None:
                    part = Block(input, *target).take(*_inputs(meetings))
                    term, _ = self.operators.weight_gradient(block.tensor, part, _padding(meetings))
                    grad_weight.add_(term)
        return [grad_input, grad_weight, grad_bias]

    def _compute(self, source: Source, ranks, tensors) -> list[Tensor | None]:
        """All of the rank's target, as far as it follows from the source."""
        grad_output, input, weight = tensors
        wants_input, wants_weight, wants_bias = self.wants
        target = self.target(ranks)
        grad_input = grad_weight = None
        read = self._read(source, target)
        meetings = self._meetings(read, target)
        own = self.block(ranks, grad_output)
        # The pass of the weight's gradient sums up what it reads for the bias too.
        with_bias = wants_bias and wants_weight and meetings is not None
        with_bias = with_bias and read == (own.rows, own.columns)
        grad_bias = bias_gradient(grad_output) if wants_bias and not with_bias else None
        if not wants_weight:
            return [self._input_gradient(source, target, grad_output, weight), None, grad_bias]
        if meetings is None:
            grad_weight = self.operators.no_weight_gradient(grad_output, input)
            if wants_input:
                grad_input = self._zeros(grad_output, weight, target)
            return [grad_input, grad_weight, grad_bias]
        part = Block(input, *target).take(*_inputs(meetings))
        grad_part, padding = source.take(*read), _padding(meetings)
        if wants_input:
            grad_input, grad_weight, sums = self.operators.gradients(
                grad_part, part, weight, padding, with_bias
            )
            grad_input = self._filled(grad_input, meetings, grad_output, weight, target)
        else:
            grad_weight, sums = self.operators.weight_gradient(grad_part, part, padding, with_bias)
        return [grad_input, grad_weight, sums if with_bias else grad_bias]

    def _read(self, source: Source, box: Box) -> Box:
        """The part of the source from which the box of the target is computed."""
        known = (source.rows, source.columns)
        flows = zip(self.flows, box, known, strict=True)
        return tuple(flow.needs(part).meet(rows) for flow, part, rows in flows)

    def _meetings(self, output: Box, input: Box) -> list[Meeting] | None:
        meetings = [a.meeting(o, i) for a, o, i in zip(self.axes, output, input, strict=True)]
        return None if None in meetings else meetings

    def _input_gradient(self, source: Source, box: Box, grad_output: Tensor, weight) -> Tensor:
        """The box of the input's gradient, as far as it follows from the source."""
        read = self._read(source, box)
        meetings = self._meetings(read, box)
        if meetings is None:
            return self._zeros(grad_output, weight, box)
        size = [meeting.input.length for meeting in meetings]
        part = self.operators.input_gradient(source.take(*read), weight, size, _padding(meetings))
        return self._filled(part, meetings, grad_output, weight, box)

    def _zeros(self, grad_output: Tensor, weight: Tensor, box: Box) -> Tensor:
        size = [interval.length for interval in box]
        return self.operators.no_input_gradient(grad_output, weight, size)

    def _filled(self, part: Tensor, meetings, grad_output, weight, box: Box) -> Tensor:
        """The box of which only this part is not zero."""
        if _inputs(meetings) == box:
            return part
        whole = self._zeros(grad_output, weight, box)
        Block(whole, *box).take(*_inputs(meetings)).copy_(part)
        return whole


def _inputs(meetings: Sequence[Meeting]) -> Box:
    return tuple(meeting.input for meeting in meetings)


def _padding(meetings: Sequence[Meeting]) -> tuple[int, int, int, int]:
    rows, columns = meetings
    return rows.before, rows.after, columns.before, columns.after
