"""Promises about groups: one task at a time, in order, and all results are in the shared data."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from tests.chaos.final import Final
from tests.chaos.runs import History


def groups_are_worked_off(_: History, final: Final) -> Iterator[str]:
    """Expect that in the end, no task has its group's turn, or waits for it."""
    for name, group in final.groups.items():
        if group.turn is not None or group.waiting:
            yield f"group {name} has the turn {group.turn}, and {list(group.waiting)} wait"


def groups_have_what_their_tasks_did(_: History, final: Final) -> Iterator[str]:
    """Expect that a group's data contains each success of its tasks once, and nothing else."""
    for name, group in final.groups.items():
        done = Counter((task_id, *mark) for task_id, marks in _members(final, name).items() for mark in marks)
        told = Counter((task_id, step, fence) for task_id, step, fence in group.log)
        if done != told:
            yield f"group {name} lacks {done - told} of its tasks, and has {told - done} of nobody"


def groups_keep_their_order(history: History, final: Final) -> Iterator[str]:
    """Expect that a group's task begins after all earlier ones have ended, unless these were reopened."""
    reopened = {event.task for event in history.of_queues("command") if event.facts["what"] == "reopen"}
    for name, group in final.groups.items():
        turns = [task_id for task_id, _ in groupby(task_id for task_id, _, _ in group.log)]
        plain = [task_id for task_id in turns if f"member/{task_id}" not in reopened]
        numbers = [final.queues[f"member/{task_id}"].facts["group_number"] for task_id in plain]
        if numbers != sorted(set(numbers)):
            yield f"group {name} had the turns {turns}, with the numbers {numbers}"


def _members(final: Final, name: str) -> dict[str, Sequence[tuple[int, int]]]:
    return {named.partition("/")[2]: row.marks for named, row in final.queues.items() if row.facts.get("group") == name}


CHECKS = (groups_are_worked_off, groups_have_what_their_tasks_did, groups_keep_their_order)
