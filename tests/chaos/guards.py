"""Guards of the protocol that a chaos run can remove, to see that the checker notices."""

from __future__ import annotations

import pytest

from tests.race.guards import GUARDS

__all__ = ["NAMES", "remove_guard"]

NAMES = sorted({guard.name for guard in GUARDS})


def remove_guard(name: str) -> None:
    """Take a guard out of this process, for good; before its conditions are rendered for the first time."""
    next(guard for guard in GUARDS if guard.name == name).remove(pytest.MonkeyPatch())
