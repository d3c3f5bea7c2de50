"""No state of the protocol of a run breaks a promise, and without one of its guards, some state does."""

from __future__ import annotations

import pytest

from tests.model.runs import Limits, Runs
from tests.model.search import search

FEW = Limits(claims=2, ticks=1, lost=0, late=1, deaths=0)
GUARDS = {
    ("claim", "later_token"): (FEW, "a claim of a call that has ended locks the task"),
    ("claim", "startable"): (FEW, "two blocks run under a valid lock"),
    ("claim", "under_limit"): (FEW._replace(ticks=0, late=0), "more attempts than allowed"),
    ("succeed", "mine"): (FEW, "a success is recorded twice"),
    ("fail", "mine"): (FEW._replace(ticks=0), "two blocks run under a valid lock"),
    ("release", "mine"): (FEW._replace(ticks=0), "two blocks run under a valid lock"),
}
"""By write and guard: how far is searched, and what is broken then."""


def test_no_state_breaks_a_promise() -> None:
    runs = Runs(Limits(claims=1, ticks=1))
    found = search(runs.start(), runs.following, most=100_000)
    assert (found.violation, found.is_complete) == (None, True)


@pytest.mark.parametrize(("write", "guard"), list(GUARDS))
def test_without_a_guard_a_state_breaks_a_promise(write: str, guard: str) -> None:
    limits, violation = GUARDS[write, guard]
    runs = Runs(limits, {write: [guard]})
    assert search(runs.start(), runs.following, most=20_000).violation == violation


def test_without_the_list_of_unfinished_claims_an_end_that_has_landed_counts_as_lost() -> None:
    runs = Runs(Limits(claims=1, ticks=0, lost=1, late=0, deaths=0), by_token=True)
    found = search(runs.start(), runs.following, most=20_000)
    assert found.violation == "a run was told that it is lost, and its success is recorded"
