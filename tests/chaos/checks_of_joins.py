"""Promises about joins: a waiting task continues once all its parts have ended, and counts them exactly."""

from collections.abc import Iterator

from tests.chaos.checks_of_queues import BRANCH, END, deleted
from tests.chaos.final import Final
from tests.chaos.joins import part_ids
from tests.chaos.runs import History


def joins_are_not_early(history: History, _: Final) -> Iterator[str]:
    """Expect that a report is collected once its parts have succeeded, or were deleted, or its time has come."""
    gone = deleted(history)
    for event in history.of_queues("collect"):
        if event.facts["is_late"]:
            continue
        for part, code in event.facts["found"].items():
            if code != END and not (code is None and f"part/{part}" in gone):
                yield f"{event} began, and {part} was at {code}"
        if event.facts["waits"]:
            yield f"{event} began, and the report waited for {event.facts['waits']}"


def parts_come_with_their_report(history: History, final: Final) -> Iterator[str]:
    """Expect that only a report that was split has parts."""
    gone, expected = deleted(history), set[str]()
    for named, row in final.queues.items():
        use_case, _, task_id = named.partition("/")
        if use_case == "report" and any(step == 10 for step, _ in row.marks):
            expected |= {f"part/{part}" for part in part_ids(task_id)}
    for named in sorted(expected - final.queues.keys() - gone):
        yield f"{named} is not there, and its report was split"
    for named in final.queues:
        if named.startswith("part/") and named not in expected:
            yield f"{named} is there, and its report was not split"


def counters_are_exact(_: History, final: Final) -> Iterator[str]:
    """Expect that in the end, no report waits for a part, and no part has a report to notify."""
    for named, row in final.queues.items():
        if named.startswith("report/") and row.facts["waits"] is not None:
            yield f"{named} is at {row.code}, and waits for {row.facts['waits']}"
        if named.startswith("part/") and row.code == END and row.facts["parent"] is not None:
            yield f"{named} has ended, and still has {row.facts['parent']}"


def what_is_cancelled_stays_so(history: History, _: Final) -> Iterator[str]:
    """Expect that no run of a cancelled report or part begins before a reopen, except its branch.

    A run that was tried before the cancel returned may have been cancelled with it.
    """
    tried = {(event.worker, event.run): event.time for event in history.of_queues("try")}
    reopened: dict[str, float] = {}
    for event in history.of_queues("command"):
        if event.facts["what"] == "reopen":
            reopened[event.task] = min(event.time, reopened.get(event.task, event.time))
    for stop in history.of_queues("stopped"):
        stopped = {stop.task, *stop.facts["children"]}
        for began in history.of_queues("began"):
            is_later = tried.get((began.worker, began.run), stop.time) > stop.time
            if (
                began.facts["step"] != BRANCH
                and began.task in stopped
                and is_later
                and reopened.get(began.task, began.time) >= began.time
            ):
                yield f"{began}, and it was cancelled: {stop}"


CHECKS = (joins_are_not_early, parts_come_with_their_report, counters_are_exact, what_is_cancelled_stays_so)
