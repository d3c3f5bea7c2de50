"""What can be wrong with a class of tasks: each mistake says what was written, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pynamodb.attributes import Attribute, DiscriminatorAttribute, VersionAttribute
from pynamodb.indexes import Index

from pynamodb_tracker.arguments import LONGEST, shown
from pynamodb_tracker.dynamodb.limits import check
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.serialization import of_default
from pynamodb_tracker.model.use_case import UseCase
from pynamodb_tracker.status import HIGHEST, LOWEST, SPACING
from pynamodb_tracker.step import BoundStep, Step

__all__ = ["in_attributes", "in_names", "in_steps", "in_table", "in_use_case"]

_OF_CREATE = frozenset({"cls", "hash_key", "range_key", "self"})
"""Parameters of `create`, and of PynamoDB's constructor: a value of that name would never arrive."""

_MOST_ATTEMPTS = 2**63 - 1
_LONGEST_NAME = 65_535
"""Bytes; https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html"""


def in_names(base: type[TaskRow], declared: Mapping[str, Any]) -> Iterator[str]:
    """Yield names that the library or PynamoDB needs for themselves."""
    users = base.get_attributes().keys() - base.tracker_attributes - {"data"}
    for name, value in declared.items():
        if name in (base.tracker_attributes | {"data", "tracker"}) - {"use_case_id"}:
            yield f".{name} clashes with a name of the model: write another one, say my_{name}"
        if isinstance(value, Attribute | Step | Index):
            yield from _in_name(base, name, value, is_users=name in users)


def _in_name(base: type[TaskRow], name: str, value: object, *, is_users: bool) -> Iterator[str]:
    """Yield what is wrong with the name of an attribute, a step or an index."""
    taken = getattr(base, name, None)
    is_step = isinstance(taken, BoundStep | Step)
    if name == "use_case_id" and isinstance(value, UseCase):
        return
    if not name.isidentifier():
        yield f".{name!r} is no name that Python can read: write letters, digits and underscores"
    elif name == "use_case_id":
        yield '.use_case_id: write use_case_id = UseCase("...") with the name that is stored'
    elif isinstance(value, UseCase):
        yield f".{name}: write use_case_id = UseCase({value.name!r})"
    elif (hasattr(base, name) and not (is_step or is_users)) or name in _OF_CREATE:
        yield f".{name} clashes with a name of the model: write another one, say my_{name}"
    elif taken is not None and is_step != isinstance(value, Step):
        yield f".{name} is a step and an attribute: write another name for one of them"
    elif name.startswith("_"):
        yield f".{name} begins with an underscore, as names of the model do: write {name.lstrip('_') or 'value'}"


def in_attributes(model: type[TaskRow]) -> Iterator[str]:
    """Yield attributes that cannot be stored beside the tracker's own."""
    reserved = (*model.tracker_attributes, "data")
    stored: dict[str, str] = {}
    for name, attribute in sorted(model.get_attributes().items(), key=lambda pair: pair[0] not in reserved):
        if attribute.attr_name in stored:
            taken = stored[attribute.attr_name]
            yield f".{name} is stored as {attribute.attr_name!r}, as {taken} is: write another attr_name"
        elif name not in reserved and (attribute.is_hash_key or attribute.is_range_key):
            yield f".{name} is a key, and the keys are task_id and use_case_id: leave hash_key and range_key out"
        elif not _is_stored_name(attribute.attr_name):
            yield (
                f".{name} has the attr_name {shown(attribute.attr_name)}, which cannot be stored: write one of at most "
                f"{_LONGEST_NAME:,} bytes, without [ and ]"
            )
        elif isinstance(attribute, DiscriminatorAttribute):
            yield f".{name} is a discriminator, and the use case tells the class of a row: leave it out"
        elif isinstance(attribute, VersionAttribute):
            yield f".{name} is a version, and the lock guards the row: leave it out"
        stored[attribute.attr_name] = name
        if name not in reserved:
            yield from _in_default(model, name, attribute)


def _is_stored_name(name: str) -> bool:
    """Tell whether DynamoDB takes a name, and PynamoDB does not take it for an entry of a list."""
    encoded = name.encode(errors="ignore")
    return name == encoded.decode() and len(encoded) <= _LONGEST_NAME and not {"[", "]"} & {*name}


def _in_default(model: type[TaskRow], name: str, attribute: Attribute[Any]) -> Iterator[str]:
    """Yield a default that cannot be stored: older rows are loaded with it, after their claim."""
    default = attribute.default if attribute.default is not None else attribute.default_for_new
    is_users = not type(attribute).serialize.__module__.startswith("pynamodb.")  # it may want a network, or a secret
    if default is None or callable(default) or is_users:
        return
    try:
        value = of_default(model, name, attribute, default)
        if value is not None:
            check(model.__name__, name, attribute, value)
    except ValueError as error:  # of the library, or of an attribute that makes its own kind of what it is given
        yield f".{name} has a default that cannot be stored: {error}"


def in_table(model: type[TaskRow], declared: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a class that has a Meta."""
    name, margin = getattr(model.Meta, "table_name", None), getattr(model.Meta, "clock_margin", timedelta(0))
    if "use_case_id" in declared:
        yield (
            f" is a use case and has a Meta: write class AppTask(Task) with the Meta, which is the table, and "
            f"class {model.__name__}(AppTask) with the use case"
        )
    if not name or not isinstance(name, str):
        yield '.Meta names no table: write table_name = "tasks"'
    if not (isinstance(margin, timedelta) and timedelta(0) <= margin <= LONGEST):
        yield f".Meta.clock_margin = {margin!r}: write a timedelta of zero or more, at most {LONGEST.days} days"


def in_use_case(model: type[TaskRow], use_case: object, declared: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a class that has a use case, its steps apart."""
    if not isinstance(use_case, UseCase):
        yield f".use_case_id = {use_case!r}: write use_case_id = UseCase({use_case!r})"
        return
    yield from (f": {mistake}" for mistake in use_case.mistakes())
    if not model.tracker.has_table:
        yield (
            " has no table: write class AppTask(Task) with class Meta: table_name = ..., and "
            f"class {model.__name__}(AppTask)"
        )
    for name, value in declared.items():
        if isinstance(value, Index):
            yield f".{name} is an index on a use case: write it in {model.tracker.table.owner.__name__}, the table"


def in_steps(steps: Sequence[Step]) -> Iterator[str]:
    """Yield what is wrong with the steps of a use case, in the order of their numbers."""
    if not steps:
        yield " has no step: write, say, ship = Step(10)"
    before: Step | None = None
    for step in steps:
        number = step.number
        told = f".{step.name} = Step({shown(number)})"
        if type(number) is not int or not LOWEST <= number <= HIGHEST:
            yield f"{told}: write a whole number from {LOWEST} to {HIGHEST}"
        if before is not None and number - before.number < SPACING:
            yield (
                f"{told} is {number - before.number} after {before.name} = Step({before.number}); steps need {SPACING} "
                f"codes each: write Step({before.number + SPACING})"
            )
        yield from (f"{told}: {mistake}" for mistake in _in_settings(step))
        before = step


def _in_settings(step: Step) -> Iterator[str]:
    lock_for: object = step.lock_for
    delay: object = step.retry_delay
    if type(step.max_attempts) is not int or not 1 <= step.max_attempts <= _MOST_ATTEMPTS:
        yield f"max_attempts={shown(step.max_attempts)}; write a whole number from 1 to {_MOST_ATTEMPTS}"
    if not (isinstance(lock_for, timedelta) and timedelta(0) < lock_for <= LONGEST):
        yield f"lock_for={lock_for!r}; write a timedelta above zero"
    if not (delay is None or callable(delay) or (isinstance(delay, timedelta) and delay >= timedelta(0))):
        yield f"retry_delay={delay!r}; write a timedelta, or a function of the attempt's number that returns one"
    if not isinstance(step.give_up_on, tuple | list) or not all(map(_is_exception, step.give_up_on)):
        yield f"give_up_on={step.give_up_on!r}; write a tuple of exception classes, (AddressUnknown,)"
    if not isinstance(step.also_from, tuple | list):
        yield f"also_from={step.also_from!r}; write a tuple of states, (confirm_payment.failed,)"


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)
