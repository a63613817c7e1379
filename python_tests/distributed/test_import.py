"""What `import haloconv` does for programs that use few parts of it: it imports no others."""

import os
import subprocess
import sys

import haloconv

_PROGRAM = """
import sys, torch
before = set(sys.modules)
import haloconv
assert "triton" not in sys.modules.keys() - before  # which the flop counter imports
loaded = [m for m in sys.modules if m.startswith(("torch.distributed.tensor", "haloconv.distrib"))]
assert not loaded, loaded
haloconv.conv2d(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 3, 3))
assert "torch.distributed.tensor" not in sys.modules
haloconv.distributed.conv2d  # imported by its name
assert "haloconv.distributed" in sys.modules
from torch.distributed.tensor._dispatch import OpDispatcher
assert not [op for op in OpDispatcher()._custom_op_handlers if op.namespace == "haloconv"]
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False) as counter:
    haloconv.conv2d(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 3, 3))
assert counter.get_total_flops() == 2 * 2 * 2 * 9
"""


def test_import_takes_nothing_that_is_not_asked_for() -> None:
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONPATH": path, "HALOCONV_LIBRARY": haloconv.library_path}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
