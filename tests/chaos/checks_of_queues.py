"""Promises about queue tasks: a row contains each success once, and nothing failed or cancelled."""

from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.final import Final
from tests.chaos.runs import History

END, CANCELLED, BRANCH = 1000, 1001, 90


def is_at_rest(code: int) -> bool:
    """Return whether a task with this code only waits for a person."""
    return code in {END, CANCELLED} or code % 10 == 3


def deleted(history: History) -> set[str]:
    return {event.task for event in history.of_queues("command") if event.facts["what"] == "delete"}


def tasks_of_queues_are_there(history: History, final: Final) -> Iterator[str]:
    """Expect that exactly the created tasks exist."""
    asked = {event.task for event in history.of_queues("make")}
    for event in history.of_queues("made"):
        if event.task not in final.queues:
            yield f"{event.task} was created, and is not there"
    for named in final.queues:
        if named.startswith(("sale/", "report/", "member/", "bill/")) and named not in asked:
            yield f"{named} is there, and nobody created it"


def queues_are_worked_off(_: History, final: Final) -> Iterator[str]:
    """Expect that no task is left that a worker could continue, or that waits for tasks that have ended."""
    for named, row in final.queues.items():
        if named.startswith(("index/", "sale/", "report/", "member/", "bill/")) and not is_at_rest(row.code):
            yield f"{named} is left at {row.code}: {row.facts}"
        if named.startswith("part/") and row.code not in {END, CANCELLED}:
            yield f"{named} is left at {row.code}: {row.facts}"


def marks_are_those_of_successes(history: History, final: Final) -> Iterator[str]:
    """Expect that each acknowledged success has a mark, in fence order, and no other run has one."""
    gone = deleted(history)
    for event in history.of_queues("done"):
        row, mark = final.queues.get(event.task), (event.facts["step"], event.facts["fence"])
        if row is None and event.task not in gone:
            yield f"{event.task} succeeded, and is not there"
        elif row is not None and mark not in row.marks:
            yield f"the success {mark} of {event.task} was acknowledged, and is not in the row: {row.marks}"
    failed = {
        (event.task, event.facts["step"], event.facts["fence"]): event
        for event in history.of_queues("began")
        if event.facts["ending"] != "succeed"
    }
    for named, row in final.queues.items():
        fences = [fence for _, fence in row.marks]
        if row.facts["text"] not in {None, *fences}:
            yield f"{named} has the text of {row.facts['text']}, which did not succeed: {row.marks}"
        if fences != sorted(set(fences)):
            yield f"the successes of {named} are not in the order of their fences: {row.marks}"
        for mark in row.marks:
            if run := failed.get((named, *mark)):
                yield f"{named} has the success {mark} of a run that did not succeed: {run}"


def steps_of_queues_take_turns(history: History, final: Final) -> Iterator[str]:
    """Expect that each step was done once, in order, and again only after the task started over.

    A cancelled report that was reopened continues after its branch where it was cancelled.
    """
    reopened = {event.task for event in history.of_queues("command") if event.facts["what"] == "reopen"}
    for named, row in final.queues.items():
        steps = [step for step, _ in row.marks]
        ordered = [step for step in steps if step != BRANCH] if named in reopened else steps
        starts_over = named.startswith(("index/", "poll/"))
        if not starts_over and any(later <= step for step, later in pairwise(ordered)):
            yield f"{named} did its steps in the order {steps}"
        if named.startswith("index/") and any(
            (step, later) not in {(10, 20), (20, 10)} for step, later in pairwise(steps)
        ):
            yield f"{named} did its steps in the order {steps}"


def cancelled_runs_record_nothing(history: History, final: Final) -> Iterator[str]:
    """Expect that a run that a person cancelled records no success."""
    done = {(event.task, event.facts["fence"]) for event in history.of_queues("done")}
    for event in history.of_queues("cancelled"):
        run = (event.task, event.facts["fence"])
        row = final.queues.get(event.task)
        if run in done:
            yield f"the success of fence {run[1]} of {run[0]} was acknowledged, and it was cancelled"
        if row is not None and run[1] in {fence for _, fence in row.marks}:
            yield f"the success of fence {run[1]} of {run[0]} is in the row, and it was cancelled"


CHECKS = (
    tasks_of_queues_are_there,
    queues_are_worked_off,
    marks_are_those_of_successes,
    steps_of_queues_take_turns,
    cancelled_runs_record_nothing,
)
