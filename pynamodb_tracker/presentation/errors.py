"""Errors on one line, and groups of tasks with the same error."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from operator import methodcaller
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException, TableDoesNotExist

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.side_by_side import side_by_side
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.pages import IndexEntry
from pynamodb_tracker.step.state import State, given_up

NO_ERROR = "no error is recorded"

SAMPLE = 400  # entries to read per state, the latest due ones, at about 15 read units
LARGE_SAMPLE = 5000  # the sample for one step, or from a time on
MOST_SAMPLED = 25_600

_EPOCH = datetime.fromtimestamp(0, UTC)

S = TypeVar("S")


def one_line(error: BaseException) -> str:
    """Return an error's message on one line. For an error of PynamoDB or boto3, return its cause and advice."""
    if not isinstance(error, PynamoDBException | BotoCoreError | ClientError):
        return " ".join(str(error).split())
    cause = getattr(error, "cause", None) or error
    code = cause.response.get("Error", {}).get("Code") if isinstance(cause, ClientError) else None
    if isinstance(error, TableDoesNotExist) or code == "ResourceNotFoundException":
        return (
            "the table does not exist: create it with pynamodb-tracker create-table, or check your credentials' region "
            "and account"
        )
    if isinstance(cause, ClientError):
        return " ".join(f"{code}: {cause.response.get('Error', {}).get('Message')}".split())
    return " ".join(str(cause).split())


_ADVICE = re.compile(
    r"[;.] (?:(?:start|ignore|cancel) takes |(?:write|Call) \w+\.create\(|To (?:ignore it now|do that anyway|run a ))"
)


def for_people(error: BaseException) -> str:
    """Return an error's message on one line, without advice for programmers."""
    return _ADVICE.split(one_line(error))[0]


# Groups of tasks with the same error.

_VARIES = re.compile(
    r"""
      (?P<kept>                                        # what says which error it is
          \butf-\d+\b | \b[a-z]{2}(?:-[a-z]+)+-\d\b      # an encoding; a region of AWS
        | (?:code|errno|error|exit|http|signal|status)[^\w-]{0,3}-?\d+(?!\w|[.:]\d)
        | (?<![\w.:-])[345]\d\d(?!\w|[.:]\d|\ (?:ms|sec|min|bytes|(?:milli)?seconds?|minutes?|hours?|days?)\b)
      )
    | \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b  # a UUID
    | \b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?(?!\d)  # a time
    | (?:-?\d+\ days?,\ )?\b\d+:\d{2}(?::\d{2}(?:\.\d+)?)?\b  # a timedelta, or a time of day
    | \b(?:\d+(?:\.\d+)?\ ?(?:[mnuµ]?s|sec|[mhd]|min|(?:milli|micro)?seconds?|minutes?|hours?|days?|bytes|[kmg]i?b))+\b
    | \b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b             # an IP address
    | \b0x[0-9a-f]+\b
    | \b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b  # a hash
    | \b(?=(?:[a-z_-]*\d){3})(?=[\d_-]*[a-z])[0-9a-z_]{12,}\b  # an id that a service has given
    | (?<!\w)\d+(?:[.,]\d+)*(?:e[+-]?\d+)?(?!\w)
    | \d{4,}
    """,
    re.VERBOSE | re.IGNORECASE,
)


def error_pattern(error: str, task_id: str) -> str:
    """Return an error with … for the task's id, and # for other ids, times, durations and numbers."""
    if words := " ".join(task_id.split()):  # an error is on one line
        error = _hide_id(error, words)
    kind, colon, message = error.partition(": ")  # a class name may have digits
    return kind + colon + _hide_varying(message)


@lru_cache(4096)
def _hide_varying(message: str) -> str:
    return _VARIES.sub(lambda found: found["kept"] or "#", message)


def _hide_id(error: str, task_id: str) -> str:
    """Replace the id with …, unless it is inside a word. A regular expression per id would be slow."""
    first, *parts = error.split(task_id)
    found, left = [first], first[-1:]
    for at, part in enumerate(parts, 1):
        right = part[:1] or (task_id[:1] if at < len(parts) else "")
        is_in_word = any(each.isalnum() or each == "_" for each in (left, right))
        found += [task_id if is_in_word else "…", part]
        left = (part or task_id)[-1:]
    return "".join(found)


@dataclass(slots=True)
class ErrorGroup(Generic[S]):
    """A state's tasks with the same error pattern. `example` is the newest task's id."""

    state: S
    tasks: int
    error: str  # the message if all tasks have the same one, or the pattern
    newest: datetime
    example: str
    pattern: str
    first: datetime  # the earliest last failure. It is later than `newest` if no time can be read
    minutes: Counter[int]
    begin: datetime  # `first`, or when a task was created that failed before
    since: datetime | None = None  # when the error began, if that was in the last quarter of all failures' time
    of: int | None = None  # how many tasks in the state were read, if there are more

    def spread(self, begin: datetime, end: datetime, parts: int) -> list[int]:
        found, low = [0] * parts, begin.timestamp() / 60
        whole = max(end.timestamp() / 60 - low, 1)
        for minute, number in self.minutes.items():
            found[min(max(int((minute - low) / whole * parts), 0), parts - 1)] += number
        return found


class ErrorGroups(Generic[S]):
    def __init__(self) -> None:
        self._groups: dict[tuple[S, str], ErrorGroup[S]] = {}
        self.first = clock.NEVER

    def add(
        self, state: S, task_id: str, error: str, time: datetime | None, *, created: datetime | None = None
    ) -> None:
        """Count a task's error. `created` is when the task was created, if it has failed before."""
        pattern = error_pattern(error, task_id)
        group = self._groups.get((state, pattern))
        if group is None:
            group = ErrorGroup(state, 0, error, _EPOCH, task_id, pattern, clock.NEVER, Counter[int](), clock.NEVER)
            self._groups[state, pattern] = group
        group.tasks += 1
        if error != group.error:
            group.error = pattern
        if time is None:
            return
        group.minutes[int(time.timestamp() // 60)] += 1
        group.first, self.first = min(group.first, time), min(self.first, time)
        group.begin = min(group.begin, created or time)
        if time >= group.newest:
            group.newest, group.example = time, task_id

    def sorted(self, cut: Mapping[S, int] = MappingProxyType({})) -> list[ErrorGroup[S]]:
        """Return the groups, the largest first. `cut` has the number of tasks that were read of larger states."""
        now = clock.now()
        for group in self._groups.values():
            group.of = cut.get(group.state)
            is_new = group.of is None and group.tasks > 1 and now - group.begin < (now - self.first) / 4
            group.since = group.begin if is_new else None
        return sorted(self._groups.values(), key=lambda group: (-group.tasks, str(group.state), group.error))


@dataclass(frozen=True, slots=True)
class Errors:
    groups: Sequence[ErrorGroup[State[Any]]]
    searched: int
    cut: Mapping[State[Any], int]  # the number of tasks that were read, by state, if there are more
    first: datetime  # the earliest failure. `time` is when the errors were read
    time: datetime


NO_ERRORS = Errors([], 0, {}, _EPOCH, _EPOCH)


def find_errors(steps: Sequence[BoundStep[Any]], *, since: datetime | None = None, sample: int = SAMPLE) -> Errors:
    """Load the errors of failed and ignored tasks, and of repeating tasks that gave up an occurrence."""
    now = clock.now()
    states = [state for step in steps for state in (step.failed, step.ignored)]
    glances = side_by_side(methodcaller("index_page", limit=sample, since=since, latest_due_first=True), states)
    found = list(zip(states, glances, strict=True))
    model = steps[0].model
    waiting, is_all = given_up(model, [step.name for step in steps], since, None, most=sample)
    entries = [(state, entry) for state, part in found for entry in part.tasks]
    entries += [(row.state, IndexEntry.of(row._row_state.stored)) for row in waiting]
    cut = {state: len(part.tasks) for state, part in found if part.cursor is not None}
    if not is_all:
        cut[next(iter(model._bound_steps.values())).pending] = len(waiting)
    groups = ErrorGroups[State[Any]]()
    for state, entry in entries:
        created = entry.create_time if (entry.attempt or 0) > 1 else None
        groups.add(state, entry.task_id, entry.last_error or NO_ERROR, entry.update_time, created=created)
    return Errors(groups.sorted(cut), len(entries), cut, min(groups.first, now), now)
