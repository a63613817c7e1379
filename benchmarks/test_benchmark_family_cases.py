"""The problems that stand for a family each, found by what `explain` says."""

from __future__ import annotations

from dataclasses import replace

import family_cases
from fakes import SMALL
from family_cases import FamilyCase, Way, find, takers

EXPLANATION = """\
fprop n2c8h16w16 k16r3s3 float32
implementation: sm90, halo
  sm90, pointwise: declined, the filter has more than one tap
  sm90, halo: expected 0.5 ms, fprop tile=1x8x32
  sm90, relaid: expected 2 ms, fprop relaid
  generic, depthwise: expected 1e-01 ms, fprop
  generic: expected 1.5 ms, fprop kernel=64x64
  aten: expected 3 ms
"""


def test_families_that_take_a_problem():
    # "generic" forced would run its family `depthwise`.
    assert takers(EXPLANATION) == {
        "halo": (0.5e-3, True), "relaid": (2e-3, False), "depthwise": (0.1e-3, False)
    }  # fmt: skip
    alone = EXPLANATION.replace("depthwise: expected 1e-01 ms, fprop", "depthwise: declined, why")
    assert takers(alone)["generic"] == (1.5e-3, False)
    assert takers("") == {}


def test_a_chosen_problem_is_taken_then_one_of_the_wanted_length():
    lines = {
        "forced": "implementation: aten\n  sm90, halo: expected 0.05 ms, a\n",
        "long": "implementation: sm90, halo\n  sm90, halo: expected 5 ms, a\n",
        "short": "implementation: sm90, halo\n  sm90, halo: expected 0.02 ms, a\n",
        "declined": "implementation: aten\n  sm90, halo: declined, a reason\n",
    }
    problems = [replace(SMALL, name=name) for name in lines]

    def explain(problem, way):
        has_rows_alone = problem.name == "forced" or not way.channels_last
        is_taken = way.direction == "dgrad" and way.dtype == "bfloat16" and has_rows_alone
        return lines[problem.name] if is_taken else lines["declined"]

    found = find(explain, problems)
    expected = [
        FamilyCase("halo", Way("dgrad", "bfloat16", True, False), problems[2], True, 0.02e-3),
        FamilyCase("halo", Way("dgrad", "bfloat16", True, True), problems[0], False, 0.05e-3),
    ]
    assert [replace(case, expected=0.0) for case in found] == [
        replace(case, expected=0.0) for case in expected
    ]


def test_all_problems_are_two_dimensional_and_fit():
    problems = family_cases.conv2d_problems()
    assert {problem.operator for problem in problems} == {"conv2d"}
    assert max(problem.bytes(4) for problem in problems) <= 1 << 30
    assert len(problems) > 150
