"""The fixtures of the tests of several processes."""

import pytest
import torch
from gang import Gang

_needs_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@pytest.fixture(scope="session")
def gang():
    gang = Gang()
    yield gang
    gang.close()


@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda", marks=_needs_gpus)])
def any_gang(request):
    """That of the CPU, and that of all GPUs."""
    if request.param == "cpu":
        yield request.getfixturevalue("gang")
        return
    gang = Gang("cuda", torch.cuda.device_count())
    yield gang
    gang.close()
