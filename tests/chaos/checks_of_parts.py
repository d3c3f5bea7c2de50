"""Promises about parts: a stored result is not computed again, and its key never changes."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.chaos.checks_of_runs import with_takers
from tests.chaos.runs import History, Run

Name = tuple[str, str]
KEEPING = {"fail", "postpone", "give_up", "release"}
"""Ends that store a result again if its own write got no response."""


def stored_parts_are_not_repeated(history: History) -> Iterator[str]:
    """Expect that nobody repeats a part with a stored result, and everybody gets that result."""
    for runs in history.of_tasks().values():
        yield from _repeated(runs)


def _repeated(runs: Sequence[Run]) -> Iterator[str]:
    stored: dict[Name, tuple[int, Run]] = {}
    done: dict[Name, set[int]] = defaultdict(set)
    for run in runs:
        for part in run.calls:
            done[run.step, part.name].add(run.fence)
            if found := stored.get((run.step, part.name)):
                yield f"{run} has repeated {part.name}, whose result {found[1]} had stored"
        for part in run.got:
            result, by = stored.get((run.step, part.name), (part.result, run))
            if part.result != result:
                yield f"{run} got {part.result} as the result of {part.name}, and {by} has stored {result}"
            if part.result not in done[run.step, part.name]:
                yield f"{run} got {part.result} as the result of {part.name}, which that run has not done"
        kept = run.end is not None and run.end.outcome == "ok" and run.end.what in KEEPING
        stored |= {(run.step, part.name): (part.result, run) for part in run.got if part.stored or kept}


def keys_of_parts_stay(history: History) -> Iterator[str]:
    """Expect that a part of a task's step has one key, which no other part has."""
    keys: dict[tuple[str, str, str], str] = {}
    for run in history.runs:
        for part in run.calls:
            key = keys.setdefault((run.task, run.step, part.name), part.key)
            if key != part.key:
                yield f"{run} has the key {part.key} for {part.name}, which had {key} before"
    if len({*keys.values()}) != len(keys):
        yield "two parts have one key"


def losers_store_no_part(history: History) -> Iterator[str]:
    """Expect that no result is stored for a part that was called after another claim had taken over."""
    for run, taken, taker in with_takers(history):
        late = {part.name for part in run.calls if part.time > taken}
        for part in run.got:
            if part.stored and part.name in late:
                yield f"{run} has stored {part.name}, done after {taker} had taken the task"


CHECKS = (stored_parts_are_not_repeated, keys_of_parts_stay, losers_store_no_part)
