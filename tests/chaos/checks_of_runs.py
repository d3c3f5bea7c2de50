"""Promises about a task's runs: who owned it, in which order, how often."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.chaos.pipeline import STEPS, behind, path_of
from tests.chaos.runs import History, Run

ORDER = {step.name: position for position, step in enumerate(STEPS)}
AT_ONCE = 0.5
"""Seconds that a busy machine needs from the library's check of the lock to the block's first line."""
LIMIT = {step.name: step.max_attempts for step in STEPS}


def fences_are_unique(history: History) -> Iterator[str]:
    """Expect that no two claims got the same fence."""
    for runs in history.of_tasks().values():
        for one, other in pairwise(runs):
            if one.fence == other.fence:
                yield f"two runs have one fence: {one}, {other}"


def one_owner_at_a_time(history: History) -> Iterator[str]:
    """Expect that nobody held a lock, by their own clock, after a later claim was known to have succeeded."""
    for run, taken, taker in with_takers(history):
        if run.released < math.inf or history.doubtful[run.task] > 0:
            continue  # its worker was taken for dead: it still believes that it holds the task, as it was told
        for at, held in run.effects:
            if held and at > taken:
                yield f"{run} still held its lock {at - taken:.3f} s after {taker} had taken the task"


def no_block_begins_after_its_lock(history: History) -> Iterator[str]:
    """Expect that no lock had expired at the first line of a block, unless its worker was frozen just before."""
    for run in history.runs:
        if run.late > AT_ONCE:
            expired = run.claimed - run.late
            pauses = history.frozen[run.worker]
            if not any(begin < run.claimed and expired < end for begin, end in pauses):
                yield f"the block of {run} began {run.late:.3f} s after its lock had expired"


def losers_write_nothing(history: History) -> Iterator[str]:
    """Expect that no write is acknowledged that was sent after a later claim was known to have succeeded."""
    for run, taken, taker in with_takers(history):
        for write in run.writes:
            if write.outcome == "ok" and write.invoked > taken:
                late = write.invoked - taken
                yield f"the {write.what} of {run}, sent {late:.3f} s after {taker} had taken the task, was acknowledged"


def released_runs_record_nothing(history: History) -> Iterator[str]:
    """Expect that after a person released a run, none of its ends or later writes is acknowledged."""
    for run in history.runs:
        for write in run.writes:
            if write.outcome == "ok" and (
                write.invoked > run.released or (write is run.end and run.released < math.inf)
            ):
                yield f"the {write.what} of {run} was acknowledged, and a person had released its task"


def children_of_forks_write_nothing(history: History) -> Iterator[str]:
    """Expect that every write by a process that was forked inside a block is refused."""
    yield from history.children


def no_success_is_repeated(history: History) -> Iterator[str]:
    """Expect that after an acknowledged success, nobody claimed that step again, nor an earlier one."""
    for runs in history.of_tasks().values():
        for position, run in enumerate(runs):
            again = (later for later in runs[position + 1 :] if ORDER[later.step] <= ORDER[run.step])
            if run.succeeded and (later := next(again, None)):
                yield f"{later} began although {run} had succeeded"


def no_step_is_skipped(history: History) -> Iterator[str]:
    """Expect that before a claim, every earlier step was done in order by a run that may have succeeded."""
    for runs in history.of_tasks().values():
        for one, other in pairwise(runs):
            if ORDER[other.step] < ORDER[one.step]:
                yield f"{other} is of an earlier step than {one}"
        for position, run in enumerate(runs):
            done = {earlier.step for earlier in runs[:position] if earlier.may_have_succeeded}
            for step in path_of(run.task):
                if ORDER[step.name] < ORDER[run.step] and step.name not in done:
                    yield f"{run} began although nobody had done {step.name}"


def attempts_are_counted(history: History) -> Iterator[str]:
    """Expect that each claim counts as an attempt, up to the limit, unless it was released. Dead workers count, too."""
    unheard = history.unheard()
    for task, runs in history.of_tasks().items():
        for run in runs:
            if not 1 <= run.attempt <= LIMIT[run.step]:
                yield f"{run} was attempt {run.attempt} of {LIMIT[run.step]}"
        for one, other in pairwise(runs):
            uncounted = one.end is not None and (one.end.what in {"release", "postpone"} or one.end.or_released)
            given_back = "reopen" in history.orders.get(task, ()) or uncounted
            claims, attempts = other.fence - one.fence, other.attempt - one.attempt
            possible = range(claims - min(unheard[task], claims - 1), claims + 1)
            if one.step == other.step and not given_back and attempts not in possible:
                yield f"{claims} claims from {one} to {other} counted {attempts} attempts"


def postponements_use_up_no_attempt(history: History) -> Iterator[str]:
    """Expect that a run with an acknowledged postponement does not count as an attempt."""
    unheard = history.unheard()
    for task, runs in history.of_tasks().items():
        for one, other in pairwise(runs):
            postponed = one.end and (one.end.what, one.end.outcome) == ("postpone", "ok")
            if not postponed or one.step != other.step or "reopen" in history.orders.get(task, ()):
                continue
            claims, attempts = other.fence - one.fence, other.attempt - one.attempt
            if attempts not in range(claims - 1 - unheard[task], claims):
                yield f"{one} has postponed its task, and {claims} claims to {other} counted {attempts} attempts"


def refusals_are_true(history: History) -> Iterator[str]:
    """Expect that only missing tasks are called missing, and only done tasks done."""
    succeeded = [run for run in history.runs if run.may_have_succeeded]
    done = {(run.task, step.name) for run in succeeded for step in behind(run.task, run.step)}
    for run in history.runs:
        if run.why == "TaskNotFoundError":
            yield f"{run} was refused: there is no such task"
        if run.why == "TaskAlreadySucceededError" and (run.task, run.step) not in done:
            yield f"{run} was refused as done already, and nobody did it"


def nothing_crashed(history: History) -> Iterator[str]:
    """Expect that each error from the library is a refusal, a lost lock, or a failed request."""
    yield from history.crashes


def with_takers(history: History) -> Iterator[tuple[Run, float, Run]]:
    """Yield each run that was taken over, with the earliest time of that, and by whom."""
    for runs in history.of_tasks().values():
        yield from _taken(runs)


def _taken(runs: Sequence[Run]) -> Iterator[tuple[Run, float, Run]]:
    earliest, taker = math.inf, None
    for position in range(len(runs) - 1, -1, -1):
        run = runs[position]
        if taker is not None and taker.fence > run.fence:
            yield run, earliest, taker
        if run.claimed < earliest:
            earliest, taker = run.claimed, run


CHECKS = (
    fences_are_unique,
    one_owner_at_a_time,
    no_block_begins_after_its_lock,
    losers_write_nothing,
    released_runs_record_nothing,
    children_of_forks_write_nothing,
    no_success_is_repeated,
    no_step_is_skipped,
    attempts_are_counted,
    postponements_use_up_no_attempt,
    refusals_are_true,
    nothing_crashed,
)
