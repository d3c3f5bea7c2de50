"""Protocol guards that a chaos run can remove, to see that the checker notices."""

import pytest

from tests.race.guards import GUARDS

NAMES = sorted({guard.name for guard in GUARDS})


def remove_guard(name: str, patch: pytest.MonkeyPatch) -> None:
    """Remove a guard from all writes of this process, before its conditions are first rendered."""
    for guard in GUARDS:
        if guard.name == name:
            guard.remove(patch)
