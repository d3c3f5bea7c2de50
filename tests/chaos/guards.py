"""Guards of the protocol that a chaos run can remove, to see that the checker notices."""

import pytest

from tests.race.guards import GUARDS

NAMES = sorted({guard.name for guard in GUARDS})


def remove_guard(name: str) -> None:
    """Take a guard out of all writes of this process, for good; before its conditions are rendered the first time."""
    for guard in GUARDS:
        if guard.name == name:
            guard.remove(pytest.MonkeyPatch())
