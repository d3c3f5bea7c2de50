"""Promises about transactions: success and entry are one, reports are true, and lost runs leave no entry."""

from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.checks_of_runs import with_takers
from tests.chaos.final import Final, Row
from tests.chaos.ledger import PROGRESS, SUCCESS, is_booked
from tests.chaos.pipeline import STEPS, path_of
from tests.chaos.runs import History, Run


def successes_are_booked_exactly_once(history: History, final: Final) -> Iterator[str]:
    """Expect that the ledger has one mark per completed step of the task, and no others."""
    for task in sorted(final.ledger.keys() - final.rows.keys()):
        yield f"{task} has a ledger, and no row"
    for task, row in final.rows.items():
        accounts = final.ledger.get(task, {})
        done = {step.name for step in path_of(task) if row.code >= step.succeeded}
        for step in STEPS:
            marks = accounts.get(step.name, ())
            expected = int(is_booked(task, step.name) and step.name in done)
            if len(marks) != expected:
                yield f"{task} is at {row.code}, and {step.name} is booked {len(marks)} times: {marks}"
    for run in history.runs:
        marks = final.ledger.get(run.task, {}).get(run.step, ())
        if run.succeeded and is_booked(run.task, run.step) and (run.fence, SUCCESS) not in marks:
            yield f"{run} succeeded, and is not booked: {marks}"


def booked_successes_are_whole(history: History, final: Final) -> Iterator[str]:
    """Expect that a booked run may have succeeded, is not an unfinished claim, and all its records are in the row."""
    by_task = history.of_tasks()
    for task, row in final.rows.items():
        by_fence = {run.fence: run for run in by_task.get(task, [])}
        for step in STEPS:
            for fence, number in final.ledger.get(task, {}).get(step.name, ()):
                run = by_fence.get(fence)
                if number != SUCCESS or run is None or run.step != step.name or not run.may_have_succeeded:
                    yield f"{step.name} of {task} is booked for fence {fence}, which did not do it: {run}"
                else:
                    yield from _parted(run, row)


def _parted(run: Run, row: Row) -> Iterator[str]:
    if run.fence in row.unfinished:
        yield f"{run} is booked, and its fence is unfinished"
    records = {(run.fence, number) for number in range(1, run.end.records + 1)} if run.end else set()
    if gone := records - set(row.records):
        yield f"{run} is booked, and its records {sorted(gone)} are not in the row"


def transactions_are_as_told(history: History, final: Final) -> Iterator[str]:
    """Expect that a transaction reported as applied has one mark, and one reported as not applied has none."""
    by_task = history.of_tasks()
    for task, runs in by_task.items():
        marks = list(final.ledger.get(task, {}).get(PROGRESS, ()))
        for run in runs:
            for number, write in enumerate(run.commits, 1):
                found = marks.count((run.fence, number))
                if found not in {"ok": {1}, "unknown": {0, 1}}.get(write.outcome, {0}):
                    yield f"transaction {number} of {run} was told as {write.outcome}, and applied {found} times"
        sent = {(run.fence, number) for run in runs for number in range(1, len(run.commits) + 1)}
        if nobodys := set(marks) - sent:
            yield f"{task} has the marks {sorted(nobodys)} of nobody"


def losers_leave_no_mark(history: History, final: Final) -> Iterator[str]:
    """Expect that marks are in fence order, and none was sent by a run that had already been taken over."""
    for task, accounts in final.ledger.items():
        for one, other in pairwise(accounts.get(PROGRESS, ())):
            if other < one:
                yield f"{task} has the mark {other} after {one}"
    for run, taken, taker in with_takers(history):
        accounts = final.ledger.get(run.task, {})
        sent = [(PROGRESS, number, write) for number, write in enumerate(run.commits, 1)]
        sent += [(run.step, SUCCESS, run.end)] if run.end else []
        for account, number, write in sent:
            if write.invoked > taken and (run.fence, number) in accounts.get(account, ()):
                late = write.invoked - taken
                yield f"{run} marked {account}, sent {late:.3f} s after {taker} had taken the task"


CHECKS = (successes_are_booked_exactly_once, booked_successes_are_whole, transactions_are_as_told, losers_leave_no_mark)
