"""Promises about the end: every task ended for a recorded reason, and every row agrees with its index entry."""

import math
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from tests.chaos.final import Final
from tests.chaos.pipeline import END, IGNORED, USE_CASE, path_of
from tests.chaos.runs import History
from tests.chaos.settings import Settings

CLOCKS_DIFFER = timedelta(seconds=Settings.margin_seconds)
REMEMBERED_FENCES = 8
"""How many unfinished claims a row remembers."""


def every_task_ended(history: History, final: Final) -> Iterator[str]:
    """Expect that every task exists, and succeeded or is ignored."""
    for task in sorted(history.created - final.rows.keys()):
        yield f"{task} was created, and is not there"
    for task in sorted(final.rows.keys() - history.asked):
        yield f"{task} is there, and nobody created it"
    for task, row in final.rows.items():
        if row.code not in {END, *IGNORED}:
            yield f"{task} is left at {row.code}"


def successes_are_on_record(history: History, final: Final) -> Iterator[str]:
    """Expect that a task's state is behind every acknowledged success, and somebody did each step that it claims."""
    by_task = history.of_tasks()
    for task, row in final.rows.items():
        runs = by_task.get(task, [])
        for step in path_of(task):
            done = [run for run in runs if run.step == step.name and run.may_have_succeeded]
            acknowledged = [run for run in done if run.succeeded]
            if acknowledged and row.code < step.succeeded:
                yield f"{acknowledged[0]} succeeded, and the task is at {row.code}"
            if row.code >= step.succeeded and not done:
                yield f"{task} is at {row.code}, and nobody did {step.name}"


def nothing_is_ignored_without_a_reason(history: History, final: Final) -> Iterator[str]:
    """Expect that an ignored task has used its attempts, or a block gave up, or a person ignored it."""
    by_task = history.of_tasks()
    for task, row in final.rows.items():
        step = IGNORED.get(row.code)
        if step is None or row.attempt >= step.max_attempts or "ignore" in history.orders.get(task, ()):
            continue
        ends = [run.end for run in by_task.get(task, []) if run.step == step.name]
        if not any(end and end.what == "give_up" for end in ends):
            yield f"{task} is ignored at {step.name} after {row.attempt} attempts, and nobody gave it up"


def counts_are_within_bounds(history: History, final: Final) -> Iterator[str]:
    """Expect that attempts are within the limit, and the fence is at least as high as each claim's."""
    by_task = history.of_tasks()
    for task, row in final.rows.items():
        limit = IGNORED[row.code].max_attempts if row.code in IGNORED else 0
        if not 0 <= row.attempt <= limit:
            yield f"{task} ended at {row.code} with {row.attempt} attempts"
        highest = max((run.fence for run in by_task.get(task, [])), default=0)
        if row.fence < highest:
            yield f"{task} has the fence {row.fence}, and a run was given {highest}"


def ends_are_remembered(history: History, final: Final) -> Iterator[str]:
    """Expect that a claim with an acknowledged end is not among the unfinished ones, and one that never ended is."""
    by_task, unheard = history.of_tasks(), history.unheard()
    for task, row in final.rows.items():
        runs = {run.fence: run for run in by_task.get(task, [])}
        for run in runs.values():
            if run.end and run.end.outcome == "ok" and run.fence in row.unfinished:
                yield f"the {run.end.what} of {run} was acknowledged, and its fence is unfinished"
        if len(row.unfinished) >= REMEMBERED_FENCES:
            continue
        finished = set(range(1, row.fence + 1)) - set(row.unfinished)
        nobodys = finished - runs.keys()
        if len(nobodys) > unheard[task]:
            yield f"the fences {sorted(nobodys)} of {task} count as finished, and {unheard[task]} claims were unheard"
        for fence in sorted(finished & runs.keys()):
            if runs[fence].end is None:
                yield f"fence {fence} of {task} counts as finished, and its run never ended"


def losses_are_true(history: History, final: Final) -> Iterator[str]:
    """Expect that a claim that a person released, or that lost its lock, is among the unfinished ones."""
    for runs in history.of_tasks().values():
        for run in runs:
            row = final.rows.get(run.task)
            if row is None or run.fence in row.unfinished or len(row.unfinished) >= REMEMBERED_FENCES:
                continue
            if run.released < math.inf:
                yield f"{run} was released by a person, and counts as finished"
            if run.end and run.end.outcome == "lost":
                yield f"the {run.end.what} of {run} was told as lost, and counts as finished"


def locks_of_nobody_are_announced(history: History, final: Final) -> Iterator[str]:
    """Expect that the error of a claim that nobody got says so, or its worker died.

    A refused claim may be applied later by a late copy. A claim that was lost before its block began belongs to nobody.
    The same call may take a claim again after a person released it.
    """
    by_task = history.of_tasks()
    possible = Counter(run.task for run in history.runs if run.outcome in {"refused", "lost"})
    possible += Counter(run.task for run in history.runs if run.outcome == "unknown" and run.announced)
    for task, row in final.rows.items():
        nobodys = set(row.unfinished) - {run.fence for run in by_task.get(task, [])}
        nobodys -= {fence for released, fence in history.releases if released == task}
        if len(nobodys) > possible[task]:
            yield f"the fences {sorted(nobodys)} of {task} are of nobody, and {possible[task]} claims may have left one"


def the_index_is_exact(_: History, final: Final) -> Iterator[str]:
    """Expect that the index contains exactly the rows, under the keys for their states, with sortable times."""
    rows = Counter(row.entry for row in final.every)
    for entry in rows - final.index:
        yield f"the index has no {entry}"
    for entry in final.index - rows:
        yield f"the index has {entry}, and no row says so"
    for each in final.every:
        if each.entry.status_key != each.status_key:
            yield f"{each.entry.task} is at {each.code} and indexed under {each.entry.status_key}"
    for task, row in final.rows.items():
        created, updated, due = map(datetime.fromisoformat, (row.create_time, row.update_time, row.entry.due_time))
        if not created - CLOCKS_DIFFER <= updated <= due:
            yield f"{task}: created {row.create_time}, updated {row.update_time}, due {row.entry.due_time}"


def queries_agree_with_the_rows(_: History, final: Final) -> Iterator[str]:
    """Expect that `counts()` agrees with the rows, and each state's query returns each of its tasks once."""
    counted = Counter(row.code for row in final.rows.values())
    if counted != final.counts:
        yield f"the rows are {dict(counted)}, and counts() says {final.counts}"
    for code, tasks in final.queried.items():
        there = sorted(task for task, row in final.rows.items() if row.code == code)
        if sorted(tasks) != there:
            yield f"the query of {code} differs from the rows in {Counter(tasks) - Counter(there)}, the other way "
            f"round in {Counter(there) - Counter(tasks)}"


def chunks_are_bounded(_: History, final: Final) -> Iterator[str]:
    """Expect that a row's data has at most two slots of overflow chunks, without a gap, and one log item."""
    for task, keys in final.chunks.items():
        if task not in final.rows:
            yield f"{task} has no row, but the items {sorted(keys)}"
        slots: dict[str, list[int]] = {}
        for key in keys:
            match key.split("#"):
                case [use_case, "data", "A" | "B" as slot, number] if use_case == USE_CASE:
                    slots.setdefault(slot, []).append(int(number))
                case [use_case, "errors"] if use_case == USE_CASE:
                    pass
                case _:
                    yield f"{task} has the unexpected item {key}"
        for name, numbers in slots.items():
            if sorted(numbers) != list(range(len(numbers))):
                yield f"{task} has the chunks {sorted(numbers)} in slot {name}"


CHECKS = (
    every_task_ended,
    successes_are_on_record,
    nothing_is_ignored_without_a_reason,
    counts_are_within_bounds,
    ends_are_remembered,
    losses_are_true,
    locks_of_nobody_are_announced,
    the_index_is_exact,
    queries_agree_with_the_rows,
    chunks_are_bounded,
)
