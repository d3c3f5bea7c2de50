"""`compare`: what differs between two tables of the same use cases, such as a table and one that was restored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, NamedTuple

import typer
from botocore.exceptions import ClientError

from pynamodb_tracker import clock
from pynamodb_tracker.cli import command, terminal
from pynamodb_tracker.cli import options as opt
from pynamodb_tracker.cli.command import CannotRunError
from pynamodb_tracker.cli.terminal import styled
from pynamodb_tracker.dynamodb.connection import endpoint_of
from pynamodb_tracker.presentation import exact_json
from pynamodb_tracker.presentation.task_facts import name_of
from pynamodb_tracker.presentation.text import count
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task


class Kind(StrEnum):
    """What differs for a task, the most important first."""

    ENDED = "ended"
    AHEAD = "ahead"
    MISSING = "missing"
    EXTRA = "extra"
    CHANGED = "changed"


_STYLES = {Kind.ENDED: "red", Kind.AHEAD: "red", Kind.MISSING: "magenta", Kind.EXTRA: "cyan", Kind.CHANGED: "yellow"}

_ATTRIBUTES = (
    *("task_id", "use_case_id", "status", "create_time", "update_time", "fence", "expire_time"),
    *("signals", "once", "cancel_time"),
)

_COMPARED = ("create_time", "update_time", "fence", "signals", "parts", "cancel_time")


class _Row(NamedTuple):
    """What is compared of a row; small, because all rows of one table are in memory."""

    status: int
    update_time: str
    create_time: str
    fence: str
    signals: tuple[str, ...]
    """The names of those that it has got."""
    parts: tuple[str, ...]
    """The keys of those parts of runs that are done."""
    cancel_time: str


Key = tuple[str, str]
"""The stored name of a use case, and the id of a task."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A task that is not the same in both tables; a state is None if the task is not there."""

    difference: Kind
    use_case: str
    task_id: str
    old: str | None
    new: str | None
    old_time: str | None
    new_time: str | None
    differs: dict[str, tuple[Any, Any]]
    """What is compared beside the state, by name, where the tables differ: the values of both."""


def compare(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The name of the table that was in use.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The name of the table that was restored.")],
    *,
    name: opt.App,
    use_case_name: opt.UseCase = None,
    only: Annotated[
        list[Kind] | None,
        typer.Option(metavar="KIND", help="Only these differences: ended, ahead, missing, extra, changed."),
    ] = None,
    ids: Annotated[bool, opt.flag("--ids", "Print ids only, for commands that read them from stdin.")] = False,
    as_json: Annotated[bool, opt.flag("--json", "Print a JSON object per line.")] = False,
) -> None:
    """Compare the tasks of two tables, such as a table and one restored from its backup, and change nothing.

    ended: the task has ended in OLD since; NEW would run it again. ahead: it has done at least one more step in OLD;
    NEW would repeat that. missing: it is only in OLD. extra: it is only in NEW. changed: it is at the same step, but
    ran, changed its state, got a signal, did a part of a run or was cancelled since, or was created again; the last
    column says which values differ.

    Scans both tables whole, strongly consistent, at one read unit per 4 KB, and reports how many that were. It needs
    about 0.6 KB of memory for each task of NEW. A task that changes meanwhile may be listed or not.

    Exits with 1 if there are differences.
    """
    with command.use_cases(name, use_case_name) as models:
        if ids and as_json:
            raise typer.BadParameter("it cannot be combined with --json", param_hint="--ids")
        if ids and len(models) > 1:
            raise CannotRunError("ids of several use cases cannot be told apart: add --use-case with --ids")
        tables = _Table(models, old), _Table(models, new)
        found = [each for each in sorted(_differences(*tables), key=_order) if not only or each.difference in only]
        for each in found:
            if as_json:
                terminal.write(exact_json.dumps(asdict(each)) + "\n")
            elif ids:
                terminal.say_id(each.task_id)
        if not (as_json or ids):
            _print(found, old, new)
        for table in tables:
            terminal.warn(f"{table.name}: {count(table.tasks)}, {table.units:,.0f} read units")
    if found:
        raise typer.Exit(command.FOUND)


class _Table:
    """A table by its name, with the settings of the class; counts what is read of it."""

    def __init__(self, models: Sequence[type[Task]], name: str) -> None:
        self.models = {model.tracker.use_case.name: model for model in models}
        self.name = name
        self.tasks = 0
        self.units = 0.0

    def rows(self) -> Iterator[tuple[Key, _Row]]:
        """Yield the tasks of the use cases that have not expired."""
        now = clock.now().timestamp()
        for item in self._items():
            if float(item.get("expire_time", {}).get("N", "inf")) <= now:
                continue
            self.tasks += 1
            texts = (item.get(each, {}) for each in ("update_time", "create_time"))
            update_time, create_time = (text.get("S", "") for text in texts)
            fence = item.get("fence", {}).get("N", "")
            code = item.get("status", {}).get("N", "")
            status = int(code) if code.isdecimal() else 0  # a damaged one is a state that no step declares
            signals, parts = (tuple(sorted(item.get(each, {}).get("M", ()))) for each in ("signals", "once"))
            cancelled = item.get("cancel_time", {}).get("S", "")
            yield (
                (item["use_case_id"]["S"], item["task_id"]["S"]),
                _Row(status, update_time, create_time, fence, signals, parts, cancelled),
            )

    def _items(self) -> Iterator[Mapping[str, Any]]:
        client: Any = next(iter(self.models.values())).tracker.connection().connection.client
        values = {f":u{at}": {"S": name} for at, name in enumerate(self.models)}
        request = {
            "TableName": self.name,
            "ConsistentRead": True,
            "FilterExpression": f"use_case_id IN ({', '.join(values)})",
            "ExpressionAttributeValues": values,
            "ExpressionAttributeNames": {f"#{each}": each for each in _ATTRIBUTES if each != "use_case_id"},
            "ProjectionExpression": ", ".join(each if each == "use_case_id" else f"#{each}" for each in _ATTRIBUTES),
            "ReturnConsumedCapacity": "TOTAL",
        }
        try:
            for page in client.get_paginator("scan").paginate(**request):
                self.units += page.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
                yield from page["Items"]
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                raise CannotRunError(f"there is no table {self.name!r} at {endpoint_of(client)}") from None
            raise


def _differences(old: _Table, new: _Table) -> Iterator[Difference]:
    """Yield each task that is not the same; rows of `new` are in memory until they are found in `old`."""
    left = dict(new.rows())
    for key, row in old.rows():
        other = left.pop(key, None)
        if row != other:
            yield _difference(old.models[key[0]], key, row, other)
    for key, other in left.items():
        yield _difference(old.models[key[0]], key, None, other)


def _difference(model: type[Task], key: Key, old: _Row | None, new: _Row | None) -> Difference:
    if old is None or new is None:
        kind = Kind.EXTRA if old is None else Kind.MISSING
    elif old.status != new.status and model.tracker.ends_at(old.status):
        kind = Kind.ENDED
    elif _steps_done(model, old) > _steps_done(model, new):
        kind = Kind.AHEAD
    else:
        kind = Kind.CHANGED
    old_state, new_state = (None if row is None else name_of(_state(model, row.status)) for row in (old, new))
    old_time, new_time = (None if row is None else _iso(row.update_time) for row in (old, new))
    differs = {}
    if old is not None and new is not None:
        pairs = {name: (getattr(old, name), getattr(new, name)) for name in _COMPARED}
        differs = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    return Difference(kind, *key, old_state, new_state, old_time, new_time, differs)


def _steps_done(model: type[Task], row: _Row) -> int:
    """Return how many steps the task has done, by its state; 0 for a state that no step declares."""
    steps = command.steps_of(model)
    state = _state(model, row.status)
    if state == steps[-1].succeeded:
        return len(steps)
    return next((at for at, step in enumerate(steps) if step.name == state.step), 0)


def _state(model: type[Task], code: int) -> State[Any]:
    return _states(model).get(code) or State(model, "", None, code)


@cache
def _states(model: type[Task]) -> dict[int, State[Any]]:
    """Return the states of all steps, by code; pending of a step is succeeded of the one before it."""
    states = [
        state
        for step in command.steps_of(model)
        for state in (step.succeeded, step.pending, step.in_progress, step.failed, step.ignored)
    ]
    return {state.code: state for state in states}


def _iso(stored: str) -> str:
    try:
        return datetime.fromisoformat(stored).astimezone(UTC).isoformat()
    except ValueError:
        return stored


def _order(found: Difference) -> tuple[int, str, str]:
    return list(Kind).index(found.difference), found.use_case, found.task_id


def _print(found: Sequence[Difference], old: str, new: str) -> None:
    if not found:
        terminal.say("no differences")
        return
    counted = Counter(each.difference for each in found)
    terminal.say(
        f"{count(len(found), 'difference')}: {', '.join(f'{counted[kind]:,} {kind}' for kind in Kind if counted[kind])}"
    )
    titles = ("difference", "use case", "task", f"in {old}", f"in {new}", "differs")
    terminal.print_table(titles, map(_cells, found))


def _cells(each: Difference) -> list[terminal.Cell]:
    return [
        styled(each.difference, _STYLES[each.difference]),
        each.use_case,
        styled(each.task_id, "bold"),
        each.old or "-",
        each.new or "-",
        ", ".join(each.differs) if each.difference is Kind.CHANGED else "",
    ]
