"""Counts what the steps of scripts/test.sh left in their folders, and fails if any failed.

tally.py RESULTS

Each folder holds the step's exit status, and JUnit XML where the step is a test runner; a step
without XML counts as one test.
"""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

NEEDS_GPU = "needs a GPU"  # in the tests' skip messages, C++ and Python alike


def outcome(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skipped = case.find("skipped")
    if skipped is None:
        return "passed"
    text = skipped.get("message", "") + (skipped.text or "")
    return "skipped for want of a GPU" if NEEDS_GPU in text else "skipped"


def tally(step: Path) -> Counter:
    counts = Counter()
    for report in step.glob("*.xml"):
        counts.update(outcome(case) for case in ElementTree.parse(report).iter("testcase"))
    succeeded = (step / "status").read_text().strip() == "0"
    if not succeeded and not counts["failed"]:
        counts["failed"] = 1  # it broke off, or is no test runner
    elif not counts:
        counts["passed"] = 1
    return counts


def main() -> None:
    total = Counter()
    for step in sorted(path.parent for path in Path(sys.argv[1]).glob("*/status")):
        counts = tally(step)
        total += counts
        print(f"{step.name}: " + ", ".join(f"{n} {what}" for what, n in counts.items() if n))
    for_want_of_gpu = total["skipped for want of a GPU"]
    print(f"{for_want_of_gpu} GPU tests were skipped for want of a GPU")
    skipped = total["skipped"] + for_want_of_gpu
    print(f"{total['passed']} passed, {total['failed']} failed, {skipped} skipped")
    sys.exit(total["failed"] > 0)


if __name__ == "__main__":
    main()
