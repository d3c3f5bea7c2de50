"""Search further than the tests do, some minutes: python -m tests.model."""

from __future__ import annotations

import sys
import time

from tests.model.runs import Limits, Runs
from tests.model.search import search

MOST = 3_000_000
SEARCHED = (
    Limits(claims=1, ticks=2),
    Limits(claims=1, ticks=3, lost=2, late=2),
    Limits(claims=2, ticks=2, lost=1, late=0, deaths=0),
    Limits(claims=2, ticks=2, lost=0, late=1, deaths=1),
    Limits(claims=2, ticks=1, behind=2),
    Limits(claims=2, ticks=3),
)


def main() -> int:
    """Print what was found within each of these limits; return 1 if something is broken."""
    broken = False
    for limits in SEARCHED:
        began, runs = time.monotonic(), Runs(limits)
        found = search(runs.start(), runs.following, most=MOST)
        broken = broken or found.violation is not None
        how_far = "all" if found.is_complete else "the first"
        told = found.violation or "nothing is broken"
        print(f"{limits}: {how_far} {found.states:,} states in {time.monotonic() - began:.0f} s: {told}")  # noqa: T201 - its purpose
        for name in found.trace:
            print(f"  {name}")  # noqa: T201 - as above
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
