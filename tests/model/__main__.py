"""Search further than the tests do, some minutes: python -m tests.model [protocol...]."""

from __future__ import annotations

import sys
import time

from tests.model import answers, groups, joins, limits, merging, repeating, runs
from tests.model.protocol import Protocol, patched
from tests.model.search import Found, search

MOST = 3_000_000
PROTOCOLS = {
    each.__name__.rpartition(".")[2]: each for each in (runs, merging, joins, answers, groups, limits, repeating)
}


def main() -> int:
    """Print what was found within each of these limits; return 1 if something is broken."""
    named, broken = sys.argv[1:] or PROTOCOLS, []
    with patched():
        for name, protocol in PROTOCOLS.items():
            if name in named:
                broken += [
                    _is_broken(f"{name} {who} {faults}", protocol.protocol(who, faults))
                    for who, faults in protocol.COMPLETE
                ]
    return int(any(broken))


def _is_broken(name: str, searched: Protocol) -> bool:
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
