"""What a run did, in lines for people, and the history of each task about which a promise was broken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tests.chaos.pipeline import END, STEPS
from tests.chaos.session import Outcome

__all__ = ["lines", "traces"]

MOST_TOLD = 20
"""Violations that are told in full."""
MOST_TRACES = 3
IGNORED = {step.ignored: "ignored" for step in STEPS}
LOST_WRITES = {f"dropped answer {target}" for target in ("UpdateItem", "PutItem", "TransactWriteItems")}


def lines(outcome: Outcome) -> Iterator[str]:
    """Yield what happened, and what was broken."""
    runs, rows = outcome.history.runs, outcome.final.rows.values()
    claims = Counter(run.why or run.outcome for run in runs)
    ends = Counter(f"{run.end.what} {run.end.outcome}" for run in runs if run.end)
    saves = Counter(f"{w.what} {w.outcome}" for run in runs for w in run.writes if w is not run.end)
    ended = Counter({END: "succeeded", **IGNORED}.get(row.code, "left") for row in rows)
    yield f"seed {outcome.settings.seed}: {outcome.requests} requests, {len(outcome.events)} events"
    yield f"faults: {_told(_by_kind(outcome.faults))}"
    writes = sum(number for name, number in outcome.faults.items() if name in LOST_WRITES)
    unheard = outcome.history.unheard().total() + sum(w.outcome == "unknown" for run in runs for w in run.writes)
    yield f"answers to writes that were lost: {writes}; claims and writes that stayed without one: {unheard}"
    yield f"blows: {_told(outcome.blows)}"
    yield f"tasks: {_told(ended)}; attempts in all {sum(row.fence for row in rows)}"
    yield f"claims: {_told(claims)}"
    yield f"taken over, or set aside, from workers that died or lost the lock: {sum(len(r.unfinished) for r in rows)}"
    yield f"ends: {_told(ends)}"
    yield f"other writes: {_told(saves)}"
    yield f"pieces beside {len(outcome.final.pieces)} tasks; worked off in {outcome.calm:.1f} s"
    yield f"with heartbeats: {outcome.settings.heartbeats}; with transactions: {outcome.settings.transactions}"
    yield f"violations: {len(outcome.violations)}"
    for violation in outcome.violations[:MOST_TOLD]:
        yield f"- {violation}"
    for promise, number in Counter(violation.promise for violation in outcome.violations).items():
        yield f"{number} x {promise}"


def traces(outcome: Outcome) -> Iterator[str]:
    """Yield the history of the first tasks about which a promise was broken, each in the order of time."""
    told = " ".join(str(violation) for violation in outcome.violations)
    for task in list(dict.fromkeys(re.findall(r"parcel-\d+", told)))[:MOST_TRACES]:
        yield f"--- {task}"
        for event in sorted(outcome.events, key=lambda event: event.time):
            if event.task == task:
                yield str(event)
        yield str(outcome.final.rows.get(task))


def _by_kind(faults: Counter[str]) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for name, number in faults.items():
        kinds[name.rpartition(" ")[0]] += number
    return kinds


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))
