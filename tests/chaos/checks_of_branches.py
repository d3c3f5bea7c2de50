"""Promises about branches, and about the traces of failures and parts in a row."""

from collections.abc import Iterator

from tests.chaos.final import Final
from tests.chaos.pipeline import END, STEPS, is_fatal, path_of, skipped_steps
from tests.chaos.runs import History


def branches_are_chosen(history: History, final: Final) -> Iterator[str]:
    """Expect that a step begins only if a run of the task leads there, and the row lists the skipped steps."""
    for run in history.runs:
        if run.outcome == "ok" and run.step not in {step.name for step in path_of(run.task)}:
            yield f"{run} began, and no run leads there"
    for task, row in final.rows.items():
        expected = skipped_steps(task, row.code)
        if list(row.skipped_steps) != expected:
            yield f"{task} is at {row.code}, and says that it has passed over {row.skipped_steps}, not {expected}"


def ends_leave_nothing_of_attempts(_: History, final: Final) -> Iterator[str]:
    """Expect that a task that has succeeded has neither parts nor postponements."""
    for task, row in final.rows.items():
        if row.code == END and row.of_round:
            yield f"{task} has succeeded, and still has {row.of_round}"


def fatal_tasks_are_ignored(_: History, final: Final) -> Iterator[str]:
    """Expect that a task that kills its workers is ignored at its first step, however often it was postponed."""
    for task, row in final.rows.items():
        if is_fatal(task) and row.code != STEPS[0].ignored:
            yield f"{task} is the end of each worker, and is at {row.code}"


CHECKS = (branches_are_chosen, ends_leave_nothing_of_attempts, fatal_tasks_are_ignored)
