"""A use case's repeating tasks, and their rules in words."""

import calendar
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.control import records
from pynamodb_tracker.dynamodb.connection import get_items
from pynamodb_tracker.model.hydration import rows_to_show
from pynamodb_tracker.model.repeat import LastRun, Repeat
from pynamodb_tracker.model.status import Status
from pynamodb_tracker.presentation.task_facts import last_run_in_words, what_comes_next
from pynamodb_tracker.presentation.text import age, span
from pynamodb_tracker.presentation.times import length
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

LATE_AFTER = timedelta(minutes=15)  # a task that has been due for longer is marked as late

_DAYS = (*calendar.day_name[6:], *calendar.day_name)  # by their numbers in cron, where Sunday is 0 and 7
_UNITS = {"DAILY": "day", "WEEKLY": "week", "MONTHLY": "month", "YEARLY": "year"}
_PLACES = {"": "", "1": "the first ", "2": "the second ", "3": "the third ", "4": "the fourth ", "-1": "the last "}


@dataclass(frozen=True, slots=True)
class Schedule:
    task: Task
    state: State[Any]
    rule: str  # its rule in words. `expression` is the rule as written
    expression: str
    last_run: LastRun | None
    next: str
    due_time: datetime | None  # when it may start, or None if it is running or ignored

    @property
    def needs_look(self) -> bool:
        """Whether its last round did not succeed or it is ignored."""
        is_bad = self.last_run is not None and self.last_run.outcome != "succeeded"
        return is_bad or self.state.status is Status.IGNORED

    @property
    def overdue(self) -> timedelta | None:
        late = timedelta(0) if self.due_time is None else clock.now() - self.due_time
        return late if late > LATE_AFTER else None

    @property
    def next_in_words(self) -> str:
        return self.next if self.overdue is None else f"overdue for {span(self.overdue)}"

    @property
    def last(self) -> str:
        return "" if self.last_run is None else last_run_in_words(self.last_run)


def find_schedules(model: type[Task]) -> tuple[list[Schedule], bool]:
    """Load a use case's schedules. Also return whether these are all."""
    [stored] = [*get_items(model.tracker.connection(), [records.schedules_key(model)]), {}][:1]
    ids = records.schedules_in(stored)
    return schedules_of(rows_to_show(model, ids).values()), len(ids) < records.MOST_SCHEDULES


def schedules_of(tasks: Iterable[Task]) -> list[Schedule]:
    """Return the schedules of the tasks that repeat, the next one first."""
    found = (_schedule_of(task) for task in tasks if "repeat" in task._row_state.stored)
    return sorted(found, key=lambda each: (each.due_time or clock.NEVER, each.task.task_id))


def _schedule_of(task: Task) -> Schedule:
    rule = task.repeat
    step = task._bound_steps.get(task.state.step or "")
    waits = task.state.status in (Status.PENDING, Status.FAILED)
    return Schedule(
        task,
        task.state,
        "it cannot be read" if rule is None else in_words(rule),
        "" if rule is None else rule.expression,
        task.last_run,
        what_comes_next(task, step),
        task.due_time if waits else None,
    )


def in_words(rule: Repeat) -> str:
    """Return a rule in words, or its expression if that is clearer."""
    if rule.kind == "every":
        period = timedelta(seconds=float(rule.expression))
        short = age(period)
        return f"every {short if length(short) == period else period}"
    words = _cron_in_words(*rule.expression.split()) if rule.kind == "cron" else _rrule_in_words(rule.expression)
    return f"{words or rule.expression}, {rule.tz}"


def _cron_in_words(minute: str, hour: str, *days: str) -> str | None:
    day = _days_in_words(*(each.replace("?", "*") for each in days))
    if minute.isdecimal() and hour.isdecimal():
        return day and f"{day} at {int(hour):02}:{int(minute):02}"
    steps = re.fullmatch(r"\*(?:/(\d+))?", minute)
    if hour != "*" or day != "every day" or not (steps or minute.isdecimal()):
        return None
    if steps is None:
        return f"every hour at :{int(minute):02}"
    return f"every {steps[1]} minutes" if steps[1] else "every minute"


def _rrule_in_words(rule: str) -> str | None:
    parts = dict(part.split("=") for part in rule.split(";"))
    unit, interval, day = _UNITS[parts.pop("FREQ")], parts.pop("INTERVAL", "1"), parts.pop("BYMONTHDAY", "")
    hour, minute, second = (parts.pop(name, "") for name in ("BYHOUR", "BYMINUTE", "BYSECOND"))
    words = [f"every {unit}" if interval == "1" else f"every {interval} {unit}s"]
    if names := [each for each in parts.pop("BYDAY", "").split(",") if each]:
        short = [name[:2].upper() for name in _DAYS]
        if day or not all(each[:-2] in _PLACES for each in names):
            return None
        words.append("on " + ", ".join(_PLACES[each[:-2]] + _DAYS[short.index(each[-2:])] for each in names))
    if day:
        words.append("on the last day" if day == "-1" else f"on day {day}")
    if hour:
        words.append(f"at {hour:0>2}:{minute:0>2}")
    has_time = hour.isdecimal() and minute.isdecimal() if hour else not minute
    is_known = not parts and has_time and second in ("", "0") and (day in ("", "-1") or day.isdecimal())
    return " ".join(words) if is_known else None


def _days_in_words(day: str, month: str, weekday: str) -> str | None:
    if month != "*" or "*" not in (day, weekday):
        return None
    if day != "*":
        last = "the last day" if day == "L" else f"day {day}" if day.isdecimal() else None
        return last and f"{last} of each month"
    if weekday == "*":
        return "every day"
    short = [name[:3].upper() for name in _DAYS]
    words = [each for each in re.split("[,-]", weekday) if each in short or each in "01234567"]
    names = [_DAYS[short.index(each) if each in short else int(each)] for each in words]
    if re.fullmatch(r"\w+-\w+", weekday):
        return " to ".join(names)
    return ", ".join(names) if re.fullmatch(r"\w+(,\w+)*", weekday) else None
