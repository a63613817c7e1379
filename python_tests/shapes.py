"""The problems of the shape files, which the benchmark and the C++ tests read too."""

from problems import SHAPES, load

EDGES = load(SHAPES / "edges.txt")
EMPTY = load(SHAPES / "empty.txt")
REFERENCE = load(SHAPES / "reference.txt")


def name_of(problem) -> str:
    """For the tests' names."""
    return problem.name
