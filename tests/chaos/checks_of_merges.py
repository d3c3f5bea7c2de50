"""Promises about merged requests: each acknowledged one counts once, and none is left over."""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.checks_of_queues import END
from tests.chaos.final import Final, QueueRow
from tests.chaos.runs import History


def _places(row: QueueRow) -> Counter[str]:
    return Counter([*row.facts["done"], *row.facts["asks"], *row.facts["again"]])


def requests_are_counted_once(history: History, final: Final) -> Iterator[str]:
    """Expect that each request is done, or waits for a person to decide about an ignored task."""
    asked = {event.facts["ask"]: event.task for event in history.of_queues("ask")}
    rows = {named: _places(row) for named, row in final.queues.items() if named.startswith("index/")}
    for event in history.of_queues("asked"):
        request, how = event.facts["ask"], event.facts["effect"]
        times = rows.get(event.task, Counter())[request]
        if times != 1:
            yield f"{request} was asked of {event.task} ({how}), and is there {times} times"
    for named, places in rows.items():
        for request, times in places.items():
            if times > 1:
                yield f"{request} is {times} times in {named}"
            if asked.get(request) != named:
                yield f"{request} is in {named}, and nobody asked for it there"


def nothing_is_asked_of_the_dead(_: History, final: Final) -> Iterator[str]:
    """Expect that a task that has succeeded has nothing left to do."""
    for named, row in final.queues.items():
        if named.startswith("index/") and row.code == END and (left := [*row.facts["asks"], *row.facts["again"]]):
            yield f"{named} has succeeded, and {left} was not done"


CHECKS = (requests_are_counted_once, nothing_is_asked_of_the_dead)
