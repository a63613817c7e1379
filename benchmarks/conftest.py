"""What a program sets for its own run, a test gives back."""

import pytest
import torch


@pytest.fixture(autouse=True)
def cudnn_benchmark(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)
