"""Counts what the steps of scripts/test.sh left in their folders, and fails if any failed.

tally.py RESULTS

Each folder holds the seconds that the step took, its exit status, and JUnit XML where it is a test
runner; a step without XML counts as one test, a folder without a status as none. Some steps run
beside each other: their seconds come to more than everything took.
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
    # In the order in which they ended.
    for path in sorted(Path(sys.argv[1]).glob("*/seconds"), key=lambda path: path.stat().st_mtime):
        counts = tally(path.parent) if path.with_name("status").exists() else Counter()
        total += counts
        words = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
        print(f"{path.parent.name:17} {int(path.read_text()):5} s  {words}".rstrip())
    for_want_of_gpu = total["skipped for want of a GPU"]
    print(f"{for_want_of_gpu} GPU tests were skipped for want of a GPU")
    skipped = total["skipped"] + for_want_of_gpu
    print(f"{total['passed']} passed, {total['failed']} failed, {skipped} skipped")
    sys.exit(total["failed"] > 0)


if __name__ == "__main__":
    main()
