"""Promises about a repeating task: each occurrence once, in order, not early, and none left out without reason."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.final import Final
from tests.chaos.queues import MOST_ATTEMPTS, PERIOD
from tests.chaos.runs import History

_PERIOD = PERIOD.total_seconds()


def _positions(times: list[float]) -> list[int]:
    return [round((time - times[0]) / _PERIOD) for time in times]


def occurrences_are_on_the_grid_and_once(_: History, final: Final) -> Iterator[str]:
    """Expect that a task's occurrences are in order, each once, a whole number of periods apart."""
    for named, row in final.queues.items():
        times = row.facts["occurrences"]
        for time, position in zip(times, _positions(times), strict=True):
            if abs(times[0] + position * _PERIOD - time) > 0.001:
                yield f"{named} had an occurrence at {time}, which is none of the rule that began at {times[0]}"
        for one, other in pairwise(times):
            if other <= one:
                yield f"{named} had the occurrence at {other} after that at {one}"


def extra_turns_were_asked_for(history: History, final: Final) -> Iterator[str]:
    """Expect that there are no more extra turns than people have asked for."""
    asked = Counter(event.task for event in history.of_queues("command") if event.facts["what"] == "now")
    for named, row in final.queues.items():
        if len(row.facts["extras"]) > asked[named]:
            yield f"{named} had {len(row.facts['extras'])} extra turns, and {asked[named]} were asked for"


def no_occurrence_is_early(history: History, _: Final) -> Iterator[str]:
    """Expect that by the worker's clock, an occurrence's time has come, within the margin."""
    for event in history.of_queues("occurrence"):
        if event.facts["early"] > 0:
            yield f"{event} began {event.facts['early']:.3f} s early"


def no_occurrence_is_left_out(history: History, final: Final) -> Iterator[str]:
    """Expect that an occurrence without a success was given up, or has used its attempts."""
    excused, unheard = defaultdict[str, set[float]](set), Counter[str]()
    for event in history.of_queues("try", "began", "denied"):
        unheard[event.task] += 1 if event.kind == "try" else -1
    for event in history.of_queues("occurrence"):
        used = event.facts["attempt"] + max(unheard[event.task], 0) >= MOST_ATTEMPTS
        if used or event.facts["ending"] == "give_up":
            excused[event.task].add(event.facts["occurrence"])
    steered = _ignored_by_people(history)
    for named, row in final.queues.items():
        times = row.facts["occurrences"] if named not in steered else []
        for one, other in pairwise(times):
            for position in range(1, round((other - one) / _PERIOD)):
                missed = one + position * _PERIOD
                if not any(abs(missed - time) < 0.001 for time in excused[named]):
                    yield f"{named} had no occurrence at {missed}, between {one} and {other}"


def _ignored_by_people(history: History) -> set[str]:
    """Return tasks that people may have ignored. Such a task skips its occurrences until a reopen."""
    return {event.task for event in history.of_queues("command") if event.facts["what"] == "ignore"}


def schedules_go_on(history: History, final: Final) -> Iterator[str]:
    """Expect that a repeating task is pending, in progress or failed, whatever happened to its runs."""
    steered = _ignored_by_people(history)
    for named, row in final.queues.items():
        if named.startswith("poll/") and row.code not in ({10, 11, 12, 13} if named in steered else {10, 11, 12}):
            yield f"{named} repeats, and is left at {row.code}"


CHECKS = (
    occurrences_are_on_the_grid_and_once,
    extra_turns_were_asked_for,
    no_occurrence_is_early,
    no_occurrence_is_left_out,
    schedules_go_on,
)
