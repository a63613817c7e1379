"""The README's Python snippets run as they stand, given an x, a w and a model."""

import re
from pathlib import Path

import pytest
import torch

import haloconv

README = Path(__file__).resolve().parents[1] / "README.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.M | re.S)


def test_there_are_snippets():
    assert len(SNIPPETS) == 6


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda text: text.splitlines()[0][:40])
def test_snippet(snippet):
    device = "cpu"
    if "implementation(" in snippet:
        if not torch.cuda.is_available():
            pytest.skip("needs a GPU")
        device = "cuda"
    given = {
        "torch": torch,
        "haloconv": haloconv,
        "x": torch.randn(2, 3, 16, 16, device=device),
        "w": torch.randn(4, 3, 3, 3, device=device),
        "model": torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).to(device),
    }
    exec(compile(snippet, str(README), "exec"), given)
