"""Each guard is removed in a search, or in a trace on dynoxide, or it is said here why not."""

import inspect

import pytest

from pynamodb_tracker.writes.transition import Transition
from tests.race import guards as race
from tests.search.every_protocol import PROTOCOLS
from tests.search.protocol import patched
from tests.search.search import search

Pair = tuple[str, str]
"""A guard and the write that has it; an empty text stands for all writes."""
REMOVED: set[Pair] = {
    *((guard, write) for each in PROTOCOLS for guard, write in each.GUARDS if isinstance(write, str)),
    *((each.remove.part, each.remove.write) for each in race.GUARDS if isinstance(each.remove, race.Without)),
}
REPLACED = {("state_seen", "shut out"): race.shut_out_whatever_is_there}
"""Guards in whose place a trace puts another condition."""
PARTS = {
    "as_read": ("state_seen", "same_life"),
    "awaits_only": ("awaits_more",),
    "free": ("lock_expired",),
    "startable": ("is_due", "lock_expired"),
}
"""Guards that consist of others, which are removed one by one; `awaits_only` is what `awaits_more` leaves."""
NOT_REMOVED = {
    ("has_status", "enter again"): "needless for safety: the number, which each entry changes, is compared, too",
    ("later_token", "enter again"): "needless for safety: as above",
    ("membership_seen", "enter again"): "needless for safety: the status and the token are compared, too",
    (
        "has_status",
        "merge",
    ): "needless for safety: each move to another status also moves the due time, which is compared",
    ("is_due", "claim from"): "for the delay alone: a run would start too early, and nothing is lost",
    ("has errors", ""): "for liveness: an entry cannot be appended where no list is, so a second try stores the list",
}
"""Guards without which no search and no trace breaks a promise, and why."""


def _written() -> set[Pair]:
    """Return which guards the writes have that the first states of all searches send."""
    found: set[Pair] = set()
    render = vars(Transition)["condition"].fget

    def condition(transition: Transition) -> object:
        found.update((race.name_of(guard), transition.name) for guard in transition.guards)
        return render(transition)

    with pytest.MonkeyPatch.context() as patch, patched():
        patch.setattr(Transition, "condition", property(condition))
        for each in PROTOCOLS:
            for who, faults in each.BOUNDED:
                searched = each.protocol(who, faults)
                search(searched, most=100)
    return found


def _is_settled(guard: str, write: str) -> bool:
    settled = REMOVED | REPLACED.keys() | NOT_REMOVED.keys()
    if (guard, write) in settled or (guard, "") in settled:
        return True
    return guard in PARTS and all(_is_settled(part, write) for part in PARTS[guard])


def test_each_guard_of_a_write_is_removed_or_named_with_the_reason() -> None:
    written = _written()
    assert len(written) > 50
    assert [pair for pair in sorted(written) if not _is_settled(*pair)] == []


def test_each_guard_is_removed_from_some_write_or_named_with_the_reason() -> None:
    functions = [each for module in race.WITH_GUARDS for each in inspect.getmembers(module, inspect.isfunction)]
    guards = {name for name, each in functions if hasattr(each, "__wrapped__")}
    settled = {guard.partition(" ")[0] for guard, _ in REMOVED | REPLACED.keys() | NOT_REMOVED.keys()}
    assert guards - settled - PARTS.keys() == set()
    assert not REMOVED & NOT_REMOVED.keys()
