"""Promises about the records in a row: none is missing, none is from a lost run, and none are mixed."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from tests.chaos.final import Final
from tests.chaos.records import Record
from tests.chaos.runs import History, Run


def rows_are_whole(history: History, final: Final) -> Iterator[str]:
    """Expect that every reader of a row found records, text and note of one version."""
    for run in history.runs:
        if not run.whole:
            yield f"{run} found a row whose text or note is not of its last record {list(run.seen)[-1:]}"
    yield from history.torn
    for task, row in final.rows.items():
        if not row.whole:
            yield f"{task} ended with text or note that is not of its last record {list(row.records)[-1:]}"


def records_only_grow(history: History, final: Final) -> Iterator[str]:
    """Expect that later claims, and the final row, find the records of earlier claims first."""
    for task, runs in history.of_tasks().items():
        views = [(str(run), list(run.seen)) for run in runs if run.looked]
        if task in final.rows:
            views.append(("the row in the end", list(final.rows[task].records)))
        before: tuple[str, list[Record]] = ("nobody", [])
        for name, seen in views:
            if seen[: len(before[1])] != before[1]:
                yield f"{task}: {name} has {seen}, which does not go on from {before[1]} of {before[0]}"
            before = name, seen


def acknowledged_records_stay(history: History, final: Final) -> Iterator[str]:
    """Expect that later claims, and the final row, contain each acknowledged record."""
    for task, runs in history.of_tasks().items():
        for run in runs:
            stored = max(run.stores("ok"), default=0)
            own = {(run.fence, number) for number in range(1, stored + 1)}
            for later in runs:
                if later.looked and later.fence > run.fence and (gone := own - set(later.seen)):
                    yield f"{sorted(gone)} of {run} were acknowledged, and {later} did not find them"
            if task in final.rows and (gone := own - set(final.rows[task].records)):
                yield f"{sorted(gone)} of {run} were acknowledged, and are not in the row"


def losers_leave_no_record(history: History, final: Final) -> Iterator[str]:
    """Expect that each record is from a run that may have stored it, as many as one of its writes stored."""
    for task, runs in history.of_tasks().items():
        by_fence = {run.fence: run for run in runs}
        views = [(str(run), run.seen) for run in runs]
        if task in final.rows:
            views.append((f"the row of {task}", final.rows[task].records))
        for name, seen in views:
            for problem in _out_of_place(seen, by_fence):
                yield f"{name}: {problem}"


def _out_of_place(seen: Sequence[Record], by_fence: dict[int, Run]) -> Iterator[str]:
    fences = [fence for fence, _ in groupby(seen, key=lambda record: record[0])]
    if fences != sorted(set(fences)):
        yield f"the records are not in the order of their fences: {list(seen)}"
    for fence in dict.fromkeys(fences):
        numbers = [number for of, number in seen if of == fence]
        run = by_fence.get(fence)
        # A save that lost its response and then its lock is reported as lost, but it may have been applied.
        if run is None or len(numbers) not in run.stores("ok", "unknown") | _lost_saves(run):
            yield f"the records {numbers} of fence {fence} were stored by nobody who may have: {run}"
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"the records of fence {fence} are {numbers}"


def _lost_saves(run: Run) -> set[int]:
    return {write.records for write in run.writes if (write.what, write.outcome) == ("save", "lost")}


CHECKS = (rows_are_whole, records_only_grow, acknowledged_records_stay, losers_leave_no_record)
