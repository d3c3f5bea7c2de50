"""The lock protocol's guards, as named parts of conditions, and writes that are rendered once.

A write has named parameters, which each request fills. `seen` requires the value that was read.
docs/explanation/lock.md explains the guards.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce, wraps
from operator import and_
from typing import Any, NamedTuple, ParamSpec

from pynamodb.attributes import Attribute, UnicodeAttribute
from pynamodb.connection.table import TableConnection
from pynamodb.constants import (
    CONDITION_EXPRESSION,
    EXPRESSION_ATTRIBUTE_NAMES,
    EXPRESSION_ATTRIBUTE_VALUES,
    KEY,
    TABLE_NAME,
    UPDATE_EXPRESSION,
)
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from pynamodb_tracker.dynamodb.partiql import Rendered
from pynamodb_tracker.model.row import LATEST_FORMAT, Membership, TaskRow, membership_of
from pynamodb_tracker.model.status import END, Codes

_PLACE = re.compile(r":\d+")
"""PynamoDB's placeholder for a value."""


_ALIAS = re.compile(r"#\d+")
"""PynamoDB's alias of an attribute's name."""

_RESERVED = {"data", "group", "lock", "repeat", "status"}
"""https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ReservedWords.html"""

_NEEDS_NO_ALIAS = {attribute.attr_name for attribute in TaskRow.get_attributes().values()} - _RESERVED


class Parameter(str):
    """The name of a value that each request fills in."""

    __slots__ = ()


def parameter(attribute: Attribute[Any], name: str, kind: str | None = None) -> object:
    """Return an operand for a parameter with the attribute's type, or `kind`."""
    return {kind or attribute.attr_type: Parameter(name)}


def fill(attribute: Attribute[Any], name: str, kind: str | None = None) -> Action:
    """Return the action that sets an attribute to a parameter's value."""
    value: Any = parameter(attribute, name, kind)
    return attribute.set(value)


class PreparedWrite:
    """An UpdateItem or DeleteItem that is rendered once and filled per request."""

    def __init__(
        self,
        table: TableConnection,
        *,
        condition: Condition,
        actions: Sequence[Action] | None = None,
        return_values: str | None = None,
    ) -> None:
        rendered: dict[str, Any] = table.get_operation_kwargs(
            "", "", condition=condition, actions=actions, return_values=return_values
        )
        values: dict[str, dict[str, Any]] = rendered.pop(EXPRESSION_ATTRIBUTE_VALUES)
        del rendered[KEY]
        self._table_name = rendered.pop(TABLE_NAME)
        values = _each_once(rendered, values)
        _name_plainly(rendered)
        for expression, source in ((CONDITION_EXPRESSION, condition), (UPDATE_EXPRESSION, actions)):
            if source is not None and expression in rendered:
                rendered[expression] = Rendered.of(rendered[expression], source, values)
        self._rendered = rendered
        typed = [(place, kind, value) for place, each in values.items() for kind, value in each.items()]
        self._open = [(place, kind, value) for place, kind, value in typed if isinstance(value, Parameter)]
        self._fixed = {place: {kind: value} for place, kind, value in typed if not isinstance(value, Parameter)}

    def as_action(self, operation: str, key: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the write as a transaction's action, such as an "Update"."""
        return {operation: {TABLE_NAME: self._table_name, **self.request(key, values)}}

    def request(self, key: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request for one row, with a stored value per parameter."""
        filled = {**self._fixed, **{place: {kind: values[name]} for place, kind, name in self._open}}
        return {**self._rendered, KEY: key, EXPRESSION_ATTRIBUTE_VALUES: filled}


def single_request(
    table: TableConnection, key: Mapping[str, Any], condition: Condition, actions: Sequence[Action] | None = None
) -> dict[str, Any]:
    """Return a request that is rendered for this call only."""
    return {**table.get_operation_kwargs("", "", condition=condition, actions=actions), KEY: key}


def _each_once(rendered: dict[str, Any], values: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Give equal values one placeholder, because serializing values takes the client a long time."""
    places: dict[object, str] = {}
    first = {
        place: places.setdefault((kind, type(value), value) if isinstance(value, str) else place, place)
        for place, typed in values.items()
        for kind, value in typed.items()
    }
    _replace(rendered, _PLACE, first)
    return {place: value for place, value in values.items() if first[place] == place}


def _name_plainly(rendered: dict[str, Any]) -> None:
    """Replace aliases by the tracker's names, because serializing aliases takes the client a long time."""
    aliases: dict[str, str] = rendered.pop(EXPRESSION_ATTRIBUTE_NAMES)
    kept = {alias: name for alias, name in aliases.items() if name not in _NEEDS_NO_ALIAS}
    _replace(rendered, _ALIAS, {**aliases, **{alias: alias for alias in kept}})
    if kept:
        rendered[EXPRESSION_ATTRIBUTE_NAMES] = kept


def _replace(rendered: dict[str, Any], pattern: re.Pattern[str], texts: Mapping[str, str]) -> None:
    for expression in (CONDITION_EXPRESSION, UPDATE_EXPRESSION):
        if expression in rendered:
            rendered[expression] = pattern.sub(lambda found: texts[found[0]], rendered[expression])


P = ParamSpec("P")


class Guard(NamedTuple):
    """A named part of a condition, built when a write is rendered."""

    part: Callable[..., Condition]
    given: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...]

    @property
    def condition(self) -> Condition:
        """The condition in PynamoDB's form, with parameters for its values."""
        return self.part(*self.given, **dict(self.options))


def guard(part: Callable[P, Condition]) -> Callable[P, Guard]:
    """Make a function that builds a condition return it as a guard."""

    @wraps(part)
    def named(*given: P.args, **options: P.kwargs) -> Guard:
        return Guard(part, given, tuple(options.items()))

    return named


def all_of(guards: Iterable[Guard]) -> Condition:
    return reduce(and_, (guard.condition for guard in guards))


def _is_unchanged(name: str) -> Condition:
    attribute: Attribute[Any] = getattr(TaskRow, name)
    same: Condition = attribute == parameter(attribute, f"seen_{name}")
    return same


@guard
def has(name: str) -> Condition:
    """Require a row with this attribute."""
    attribute: Attribute[Any] = getattr(TaskRow, name)
    return attribute.exists()


@guard
def lacks(name: str) -> Condition:
    """Require a row without this attribute."""
    attribute: Attribute[Any] = getattr(TaskRow, name)
    return attribute.does_not_exist()


@guard
def seen(name: str, *, is_there: bool = True) -> Condition:
    """Require that an attribute has the value that was read, or that it is still missing."""
    return _is_unchanged(name) if is_there else lacks(name).condition


@guard
def has_status(*codes: int) -> Condition:
    return TaskRow.status == codes[0] if len(codes) == 1 else TaskRow.status.is_in(*codes)


@guard
def is_due() -> Condition:
    """Require a due task, within the margin by which clocks differ."""
    return TaskRow.due_time <= parameter(TaskRow.due_time, "now_plus_margin")


@guard
def lock_expired() -> Condition:
    """Require a lock that has expired on every clock within the margin."""
    return TaskRow.lock_expire_time < parameter(TaskRow.lock_expire_time, "now_minus_margin")


@guard
def known_format() -> Condition:
    return TaskRow.format_version <= LATEST_FORMAT


def _abandoned(codes: Codes) -> Condition:
    return has_status(codes.in_progress).condition & lock_expired().condition


@guard
def startable(codes: Codes) -> Condition:
    """Require a due task that no worker holds, or one whose lock has expired."""
    return (has_status(codes.pending, codes.failed).condition & is_due().condition) | _abandoned(codes)


@guard
def free(codes: Codes) -> Condition:
    """Require a task that no worker holds at this step."""
    return has_status(codes.pending, codes.failed).condition | _abandoned(codes)


@guard
def under_limit() -> Condition:
    """Require an attempt to be left, which saves a second write that undoes the claim."""
    return TaskRow.attempt < parameter(TaskRow.attempt, "max_attempts")


@guard
def later_token() -> Condition:
    """Require a later token than the row's. It blocks late copies of applied requests."""
    return TaskRow.lock.does_not_exist() | (TaskRow.lock < parameter(TaskRow.lock, "lock"))


def holds(codes: Codes, token: object) -> Condition:
    """Require that the claim with this token holds the task."""
    return (TaskRow.lock == token) & has_status(codes.in_progress).condition


@guard
def held_by_run(codes: Codes) -> Condition:
    return holds(codes, parameter(TaskRow.lock, "lock"))


@guard
def held_as_seen(codes: Codes) -> Condition:
    return holds(codes, parameter(TaskRow.lock, "seen_lock"))


@guard
def same_payload(name: str) -> Condition:
    """Require the same payload, or a row without one."""
    payload = UnicodeAttribute(attr_name=name)
    return payload.does_not_exist() | (payload == parameter(payload, f"own {name}"))


@guard
def not_ended() -> Condition:
    return TaskRow.status < END


@guard
def lock_grows() -> Condition:
    """Require a later expiry, so that a late extension cannot shorten the lock."""
    return TaskRow.lock_expire_time < parameter(TaskRow.lock_expire_time, "lock_expire_time")


@guard
def later_save() -> Condition:
    """Require a later save than the row's, so that a late copy cannot restore old values."""
    return TaskRow.saves < parameter(TaskRow.saves, "saves")


@guard
def membership_seen(membership: Membership) -> Condition:
    """Require the membership that was read. Each entry into a group has a new number."""
    if membership is Membership.NONE:
        return TaskRow.group.does_not_exist()
    same = _is_unchanged("group_number")
    if membership in {Membership.TURN, Membership.ENDED}:
        return same
    return same & TaskRow.turn_due_time.exists() & _is_unchanged("blockers")


@guard
def urgent_seen(*, is_there: bool) -> Condition:
    """Require the urgency that was read, because the index key depends on it."""
    return TaskRow.urgent.exists() if is_there else TaskRow.urgent.does_not_exist()


@guard
def state_seen() -> Condition:
    return _is_unchanged("status") & _is_unchanged("fence") & _is_unchanged("attempt")


@guard
def same_life() -> Condition:
    """Require the same task, not a recreated one."""
    return _is_unchanged("creation")


@guard
def as_read() -> Condition:
    """Require an unchanged row of the same task."""
    return state_seen().condition & same_life().condition


def seen_values(row: TaskRow) -> dict[str, str]:
    """Return the parameters for `as_read`, and for `membership_seen` if the task is in a group."""
    values = {
        "seen_status": str(row.status),
        "seen_fence": str(row.fence),
        "seen_attempt": str(row.attempt),
        "seen_creation": row.creation,
    }
    if membership_of(row) is not Membership.NONE:
        values |= {"seen_group_number": str(row.group_number), "seen_blockers": str(row.blockers or 0)}
    return values
