"""What a program sets for its own run, a test gives back; what others compiled, it does not see."""

import sys

import pytest
import torch

# The networks are too small to share: more threads would spend their time waiting.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def cudnn_benchmark(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)


@pytest.fixture(autouse=True)
def fresh_dynamo():
    """torch.compile gives up on code that other tests of the process had compiled too often."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
