"""Checks what a class of tasks declares when the class is made, and binds its steps; each mistake says what to write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from pynamodb.attributes import Attribute, DiscriminatorAttribute, VersionAttribute
from pynamodb.indexes import Index
from pynamodb.models import MetaModel
from pynamodb.settings import default_settings_dict, get_settings_value

from pynamodb_tracker.exceptions import DefinitionError
from pynamodb_tracker.schema import Schema
from pynamodb_tracker.state import State
from pynamodb_tracker.status import END, HIGHEST, LOWEST, SPACING, Codes, Status
from pynamodb_tracker.step import BoundStep, Step
from pynamodb_tracker.table import Table
from pynamodb_tracker.usecase import UseCase

if TYPE_CHECKING:
    from pynamodb_tracker.task import Task

__all__ = ["TaskMeta"]

_META_DEFAULTS = {"connect_timeout_seconds": 3, "read_timeout_seconds": 5}
"""Seconds; PynamoDB's 15 and 30 outlast most locks' patience, and most Lambda functions."""


class TaskMeta(MetaModel):
    """The metaclass of tasks: PynamoDB's, and the checks of what the tracker adds."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> None:
        base = next((base for base in bases if isinstance(base, TaskMeta)), None)
        if base is not None:
            _check(cls, _mistaken_names(base, namespace))
        if meta := namespace.get("Meta"):
            _complete(meta)
        super().__init__(name, bases, namespace, **options)
        if base is None:
            return
        model = cast("type[Task]", cls)
        _check(cls, _mistaken_attributes(model, base))
        if "Meta" in namespace:
            _declare_table(model, namespace)
        use_case = namespace.get("use_case_id")
        if isinstance(use_case, UseCase):
            _declare_use_case(model, use_case, namespace)
        elif isinstance(vars(cls).get("use_case_id", model.use_case_id), UseCase):
            raise DefinitionError(
                f"{cls.__name__} inherits the use case {model.use_case_id.name!r}, which belongs to one class: "
                f"write use_case_id = UseCase(...) with another name in {cls.__name__}"
            )
        elif steps := list(_steps(model)):
            raise DefinitionError(
                f"{cls.__name__}.{steps[0].name} is a step of no use case: write use_case_id = UseCase(...) in "
                f"{cls.__name__}"
            )


def _check(cls: type, mistakes: Iterator[str]) -> None:
    for mistake in mistakes:
        raise DefinitionError(f"{cls.__name__}{mistake}")


def _complete(meta: Any) -> None:
    """Fill in what Meta leaves out: on-demand capacity, and timeouts that fit a lock."""
    if not (hasattr(meta, "billing_mode") or hasattr(meta, "read_capacity_units")):
        meta.billing_mode = "PAY_PER_REQUEST"
    for name, seconds in _META_DEFAULTS.items():
        if not hasattr(meta, name) and get_settings_value(name) == default_settings_dict[name]:
            setattr(meta, name, seconds)


def _mistaken_names(base: type, namespace: Mapping[str, Any]) -> Iterator[str]:
    """Yield names that the library or PynamoDB needs for themselves."""
    for name, value in namespace.items():
        if not isinstance(value, Attribute | Step | Index) or (name == "use_case_id" and isinstance(value, UseCase)):
            continue
        taken = getattr(base, name, None)
        if name == "use_case_id":
            yield f".use_case_id: write use_case_id = UseCase({getattr(value, 'attr_name', None) or 'name'!r})"
        elif isinstance(value, UseCase):
            yield f".{name}: a use case is declared as use_case_id = UseCase({value.name!r})"
        elif hasattr(base, name) and not (isinstance(taken, Attribute | BoundStep | Step) and _is_users(base, name)):
            yield f".{name} clashes with a name of the model: call it {name}_ or, say, my_{name}"
        elif isinstance(taken, BoundStep | Step) != isinstance(value, Step) and taken is not None:
            yield f".{name} is both a step and an attribute: give one of them another name"
        elif name.startswith("_"):
            yield f".{name} begins with an underscore: such names are not stored; call it {name.lstrip('_') or 'value'}"


def _is_users(base: type, name: str) -> bool:
    return name not in base.tracker_attributes and name != "data"  # type: ignore[attr-defined]  # a class of tasks


def _mistaken_attributes(model: type[Task], base: type) -> Iterator[str]:
    """Yield attributes that cannot be stored beside the tracker's own."""
    stored: dict[str, str] = {}
    attributes = sorted(
        model.get_attributes().items(), key=lambda pair: pair[0] not in (*model.tracker_attributes, "data")
    )
    for name, attribute in attributes:
        own = name not in model.tracker_attributes
        if attribute.attr_name in stored:
            yield (
                f".{name} is stored as {attribute.attr_name!r}, as {stored[attribute.attr_name]} is: "
                f"give it another attr_name"
            )
        elif own and (attribute.is_hash_key or attribute.is_range_key):
            yield f".{name} is a key: the keys of the table are task_id and use_case_id; leave hash_key and range_key out"
        elif isinstance(attribute, DiscriminatorAttribute):
            yield f".{name} is a discriminator: the use case tells the class of a row; leave it out"
        elif isinstance(attribute, VersionAttribute):
            yield f".{name} is a version: the lock and its fence guard the row; leave it out"
        stored[attribute.attr_name] = name


def _declare_table(model: type[Task], namespace: Mapping[str, Any]) -> None:
    if "use_case_id" in namespace:
        raise DefinitionError(
            f"{model.__name__} is a use case and has a Meta: write class AppTask(Task) with the Meta, the table, and "
            f"class {model.__name__}(AppTask) with the use case"
        )
    name, margin = getattr(model.Meta, "table_name", None), getattr(model.Meta, "clock_margin", timedelta(0))
    if not name or not isinstance(name, str):
        raise DefinitionError(f'{model.__name__}.Meta names no table: write table_name = "tasks"')
    if not isinstance(margin, timedelta) or margin < timedelta(0):
        raise DefinitionError(f"{model.__name__}.Meta.clock_margin = {margin!r}: write a timedelta of zero or more")
    model.tracker = Schema(model, Table(model))


def _declare_use_case(model: type[Task], use_case: UseCase, namespace: Mapping[str, Any]) -> None:
    name = model.__name__
    _check(model, (f": {mistake}" for mistake in use_case.mistakes()))
    if not hasattr(model, "tracker"):
        raise DefinitionError(
            f"{name} has no table: write class AppTask(Task) with class Meta: table_name = ..., and class {name}(AppTask)"
        )
    if indexes := [key for key, value in namespace.items() if isinstance(value, Index)]:
        raise DefinitionError(
            f"{name}.{indexes[0]} is an index on a use case: write it in {model.tracker.table.owner.__name__}, the table"
        )
    steps = sorted(_steps(model), key=lambda step: step.number if type(step.number) is int else 0)
    _check(model, _mistaken_steps(steps))
    numbers = [step.number for step in steps] + [END]
    codes = [Codes(step.name, step.number, after) for step, after in zip(steps, numbers[1:], strict=True)]
    table = model.tracker.table
    model.tracker = Schema(model, table, use_case, codes)
    states = {code: State(model, each.step, status, code) for each in codes for code, status in each.own.items()}
    states[END] = State(model, codes[-1].step, Status.SUCCEEDED, END)
    bound = {step.name: BoundStep(model, step, each, states) for step, each in zip(steps, codes, strict=True)}
    model._bound_steps, model._states = bound, states  # noqa: SLF001 - the metaclass makes them
    for step in steps:
        try:
            bound[step.name].allow_from(step.also_from)
        except (TypeError, ValueError) as error:
            raise DefinitionError(f"{name}.{step.name}: {error}; name states as in also_from=(ship.failed,)") from None
    table.claim(use_case.name, model)


def _steps(model: type) -> Iterator[Step]:
    """Yield the steps that a class declares or inherits."""
    found: dict[str, object] = {}
    for base in reversed(model.__mro__):
        found.update(vars(base))
    return (value for value in found.values() if isinstance(value, Step))


def _mistaken_steps(steps: list[Step]) -> Iterator[str]:
    if not steps:
        yield " has no step: write, say, ship = Step(10)"
    before: Step | None = None
    for step in steps:
        number = step.number
        told = f".{step.name} = Step({number!r})"
        if type(number) is not int or not LOWEST <= number <= HIGHEST:
            yield f"{told}: write a whole number from {LOWEST} to {HIGHEST}"
        if before is not None and number - before.number < SPACING:
            yield (
                f"{told} is {number - before.number} after {before.name} = Step({before.number}); steps need {SPACING} "
                f"codes each: write Step({before.number + SPACING})"
            )
        yield from (f"{told}: {mistake}" for mistake in _mistaken_settings(step))
        before = step


def _mistaken_settings(step: Step) -> Iterator[str]:
    if type(step.max_attempts) is not int or step.max_attempts < 1:
        yield f"max_attempts={step.max_attempts!r}; write a whole number from 1"
    if not isinstance(step.lock_for, timedelta) or step.lock_for <= timedelta(0):
        yield f"lock_for={step.lock_for!r}; write a timedelta above zero"
    delay = step.retry_delay
    if not (delay is None or callable(delay) or (isinstance(delay, timedelta) and delay >= timedelta(0))):
        yield f"retry_delay={delay!r}; write a timedelta, or a function of the attempt's number that returns one"
    if not isinstance(step.give_up_on, tuple | list) or not all(map(_is_exception, step.give_up_on)):
        yield f"give_up_on={step.give_up_on!r}; write a tuple of exception classes, (AddressUnknown,)"
    if not isinstance(step.also_from, tuple | list):
        yield f"also_from={step.also_from!r}; write a tuple of states, (confirm_payment.failed,)"


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)
