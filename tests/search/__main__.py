"""Search further than the tests do, some minutes: python -m tests.search [protocol...].

With `traces` in front, show for each guard the shortest way to a broken promise without it, within a minute.
"""

import sys
import time
from types import ModuleType

import pytest

from tests.race.guards import Without
from tests.search.every_protocol import PROTOCOLS
from tests.search.protocol import Protocol, patched
from tests.search.search import Found, search

MOST = 3_000_000
BY_NAME = {each.__name__.rpartition(".")[2]: each for each in PROTOCOLS}


def main(*words: str) -> int:
    """Print what was found; return 1 if something is broken, or nothing is broken without a guard."""
    look = _without_each_guard if words[:1] == ("traces",) else _within_each_limit
    named = [word for word in words if word != "traces"] or BY_NAME
    with patched():
        good = [look(name, protocol) for name, protocol in BY_NAME.items() if name in named]
    return int(not all(good))


def _within_each_limit(name: str, protocol: ModuleType) -> bool:
    """Return whether no promise is broken."""
    found = [_violation(f"{name} {who} {faults}", protocol, who, faults) for who, faults in protocol.COMPLETE]
    return not any(found)


def _without_each_guard(name: str, protocol: ModuleType) -> bool:
    """Return whether a promise is broken each time."""
    broken = []
    for (guard, write), (who, faults, _) in protocol.GUARDS.items():
        of = f" of {write}" if isinstance(write, str) and write else ""
        with pytest.MonkeyPatch.context() as patch:
            (Without(guard, write) if isinstance(write, str) else write)(patch)
            broken.append(_violation(f"{name} {who} without {guard}{of}", protocol, who, faults))
    return all(broken)


def _violation(title: str, protocol: ModuleType, who: str, faults: object) -> str | None:
    began = time.monotonic()
    searched: Protocol = protocol.protocol(who, faults)
    found: Found = search(searched, most=MOST)
    how_far = "all" if found.is_complete else "the first"
    seconds, told = time.monotonic() - began, found.violation or "nothing is broken"
    print(f"{title}: {how_far} {found.states:,} states in {seconds:.0f} s: {told}")  # noqa: T201 - its purpose
    for step in found.trace:
        print(f"  {step}")  # noqa: T201 - as above
    return found.violation


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
