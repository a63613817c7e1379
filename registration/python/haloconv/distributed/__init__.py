"""Convolutions that several devices compute together, on torch.distributed.

haloconv's operators take DTensors; `import haloconv` is enough for that. docs/distributed.md says
what they promise.
"""

from haloconv.distributed.agreement import check_agreement
from haloconv.distributed.cost import (
    INFINIBAND,
    NVLINK,
    Cost,
    Layer,
    Link,
    estimate,
    layers_of,
    table,
)
from haloconv.distributed.local import conv2d, output_sizes
from haloconv.distributed.parallel import (
    ChannelGroups,
    InputChannels,
    OutputChannels,
    Spatial,
    plan,
)
from haloconv.distributed.shared_tuning import share_tuning

__all__ = [
    "INFINIBAND",
    "NVLINK",
    "ChannelGroups",
    "Cost",
    "InputChannels",
    "Layer",
    "Link",
    "OutputChannels",
    "Spatial",
    "check_agreement",
    "conv2d",
    "estimate",
    "layers_of",
    "output_sizes",
    "plan",
    "share_tuning",
    "table",
]
