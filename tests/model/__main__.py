"""Search further than the tests do, some minutes: python -m tests.model [protocol...]."""

from __future__ import annotations

import sys
import time

from tests.model import answers, groups, joins, merging, repeating
from tests.model.protocol import Protocol, patched
from tests.model.runs import Limits, Runs
from tests.model.search import Found, search

MOST = 3_000_000
SEARCHED = (
    Limits(claims=1, ticks=2),
    Limits(claims=1, ticks=3, lost=2, late=2),
    Limits(claims=2, ticks=2, lost=1, late=0, deaths=0),
    Limits(claims=2, ticks=2, lost=0, late=1, deaths=1),
    Limits(claims=2, ticks=1, behind=2),
    Limits(claims=2, ticks=3),
)
PROTOCOLS = {each.__name__.rpartition(".")[2]: each for each in (merging, joins, answers, groups, repeating)}


def main() -> int:
    """Print what was found within each of these limits; return 1 if something is broken."""
    named = sys.argv[1:] or ["runs", *PROTOCOLS]
    broken = [_is_broken(f"{limits}", Runs(limits)) for limits in SEARCHED if "runs" in named]
    with patched():
        for name, protocol in PROTOCOLS.items():
            if name in named:
                broken += [
                    _is_broken(f"{name} {who} {faults}", protocol.protocol(who, faults))
                    for who, faults in protocol.COMPLETE
                ]
    return int(any(broken))


def _is_broken(name: str, searched: Runs | Protocol) -> bool:
    began = time.monotonic()
    found: Found = search(searched.start(), searched.following, most=MOST)
    how_far = "all" if found.is_complete else "the first"
    seconds, told = time.monotonic() - began, found.violation or "nothing is broken"
    print(f"{name}: {how_far} {found.states:,} states in {seconds:.0f} s: {told}")  # noqa: T201 - its purpose
    for step in found.trace:
        print(f"  {step}")  # noqa: T201 - as above
    return found.violation is not None


if __name__ == "__main__":
    sys.exit(main())
