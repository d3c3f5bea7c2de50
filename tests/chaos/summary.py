"""A run in words, and the history of each task with a broken promise."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.checks_of_slots import holdings
from tests.chaos.faults import KINDS
from tests.chaos.ledger import PROGRESS, is_booked
from tests.chaos.pipeline import END, IGNORED
from tests.chaos.queues import NAMES
from tests.chaos.session import Outcome

MOST_TOLD = 20
"""Violations that are printed in full."""
MOST_TRACES = 3
_TASK = re.compile(rf"parcel-\d+|(?:{'|'.join(NAMES)})/[\w/-]+")
ORDERS = {"reopen", "ignore", "release", "released", "paused", "resume", "unread"}


def lines(outcome: Outcome) -> Iterator[str]:
    settings, runs, rows = outcome.settings, outcome.history.runs, outcome.final.rows.values()
    claims = Counter(run.why or run.outcome for run in runs)
    ends = Counter(f"{run.end.what} {run.end.outcome}" for run in runs if run.end)
    saves = Counter(f"{w.what} {w.outcome}" for run in runs for w in run.writes if w is not run.end)
    ended = Counter("succeeded" if row.code == END else "ignored" if row.code in IGNORED else "left" for row in rows)
    effects = Counter("under the lock" if held else "after its end" for run in runs for _, held in run.effects)
    lives = {event.worker for event in outcome.events if event.worker not in {"creator", "successor", "person", "crew"}}
    skews = sorted(settings.skew_of(life).total_seconds() for life in lives) or [0.0]
    yield f"seed {settings.seed}: {outcome.requests} requests, {len(outcome.events)} events"
    yield f"{settings.workers} workers with {len(lives)} lives; clocks wrong by {skews[0]:+.2f} to {skews[-1]:+.2f} s"
    yield f"faults: {_told(Counter(dict.fromkeys(KINDS, 0) | outcome.faults))}"
    yield f"faults of transactions: {_told(Counter(dict.fromkeys(KINDS, 0) | outcome.in_transactions))}"
    yield f"faults of batches: {_told(Counter(dict.fromkeys(KINDS, 0) | outcome.in_batches))}"
    yield f"blows: {_told(outcome.blows)}; requests lost to crashes of the database: {outcome.lost}"
    yield f"tasks: {_told(ended)}; attempts in all {sum(row.fence for row in rows)}"
    yield f"claims: {_told(claims)}"
    yield f"taken over, or set aside, from workers that died or lost the lock: {sum(len(r.unfinished) for r in rows)}"
    yield f"effects: {_told(effects)}"
    begun = Counter("expired" if run.late > 0 else "lasted" for run in runs if run.claimed < math.inf)
    yield f"locks at the first line of blocks: {_told(begun)}"
    yield f"ends: {_told(ends)}"
    yield f"other writes: {_told(saves)}"
    yield f"successes by a transaction: {_told(_booked(outcome))}"
    orders = Counter(event.kind for event in outcome.events if event.kind in ORDERS)
    yield f"orders of a person: {_told(orders)}"
    held = holdings(outcome.history.slots)
    back = sum(before.number == after.number and before.returned == math.inf for before, after in pairwise(held))
    yield f"slots of the limit: {len(held)} times taken, {back} of them from a worker that never gave it back"
    forks = Counter(event.facts["what"] for event in outcome.events if event.kind == "fork")
    children = (event.facts for event in outcome.events if event.kind == "child")
    tried = Counter(f"{facts['what']}: {facts.get('why', 'written')}" for facts in children)
    yield f"forks: {_told(forks)}; writes that children tried: {_told(tried)}"
    yield f"interrupted: {_told(_interrupted(outcome))}"
    yield f"overflow chunks of {len(outcome.final.chunks)} tasks; worked off in {outcome.calm:.1f} s"
    yield f"queues: {_told(_of_queues(outcome))}"
    yield f"violations: {len(outcome.violations)}"
    for violation in outcome.violations[:MOST_TOLD]:
        yield f"- {violation}"
    for promise, number in Counter(violation.promise for violation in outcome.violations).items():
        yield f"{number} x {promise}"


def traces(outcome: Outcome) -> Iterator[str]:
    """Yield the histories of the first tasks with broken promises, in order of time."""
    told = " ".join(str(violation) for violation in outcome.violations)
    for task in list(dict.fromkeys(_TASK.findall(told)))[:MOST_TRACES]:
        yield f"--- {task}"
        for event in sorted(outcome.events, key=lambda event: event.time):
            if event.task == task:
                yield str(event)
        yield str(outcome.final.queues.get(task, outcome.final.rows.get(task)))
        yield f"ledger: {outcome.final.ledger.get(task)}"


def _booked(outcome: Outcome) -> Counter[str]:
    """Count the outcomes of successes' transactions, and their entries."""
    booked = (run for run in outcome.history.runs if is_booked(run.task, run.step))
    told = Counter(run.end.outcome for run in booked if run.end and run.end.what == "succeed")
    told["failed instead"] = sum(
        event.facts.get("what") == "fail" for event in outcome.events if "outcome" in event.facts
    )
    for accounts in outcome.final.ledger.values():
        told["in the ledger"] += sum(len(marks) for account, marks in accounts.items() if account != PROGRESS)
    return told


def _of_queues(outcome: Outcome) -> Counter[str]:
    """Count requests by outcome, successes, commands, and the rest."""
    told = Counter[str]()
    for event in outcome.history.of_queues("asked", "done", "command", "cancelled", "occurrence", "collect", "counted"):
        told[f"{event.kind} {event.facts.get('how', event.facts.get('what', ''))}".strip()] += 1
    for named, row in outcome.final.queues.items():
        told[f"{named.partition('/')[0]} at {row.code}"] += 1
    return told


def _interrupted(outcome: Outcome) -> Counter[str]:
    """Count the interrupted runs by exception class and outcome."""
    ends = (event for event in outcome.events if "interrupt" in event.facts)
    return Counter(
        f"{event.facts['interrupt']} ({'claim' if event.kind == 'refused' else event.facts['outcome']})"
        for event in ends
    )


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))
