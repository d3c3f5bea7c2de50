"""Turns a class body into a table or a use case when the class is made: checks it, and binds its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pynamodb.models import MetaModel
from pynamodb.settings import default_settings_dict, get_settings_value

from pynamodb_tracker.exceptions import DefinitionError
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.model.schema import Schema
from pynamodb_tracker.model.table import Table
from pynamodb_tracker.model.use_case import UseCase
from pynamodb_tracker.status import END, Codes, Status
from pynamodb_tracker.step import BoundStep, State, Step
from pynamodb_tracker.task import validation as mistakes

__all__ = ["TaskMeta"]

_META_DEFAULTS = {"connect_timeout_seconds": 3, "read_timeout_seconds": 5, "max_pool_connections": 64}
"""PynamoDB's 15 and 30 seconds outlast most locks, and most Lambda functions; and with its 10 connections, further
threads open one for each request, and throw it away."""


class TaskMeta(MetaModel):
    """The metaclass of tasks: PynamoDB's, and the checks of what the tracker adds."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> None:
        base = cast("type[TaskRow] | None", next((base for base in bases if isinstance(base, TaskMeta)), None))
        model, declared = cast("type[TaskRow]", cls), _declared(cls, namespace)
        if base is None:  # Task itself
            super().__init__(name, bases, namespace, **options)
            model.tracker = Schema(model, None)
            return
        _refuse(model, mistakes.in_names(base, declared))
        if "Meta" in namespace:
            _complete(namespace["Meta"])
        try:
            super().__init__(name, bases, namespace, **options)
        except ValueError as error:
            raise DefinitionError(f"{name}: {error}") from error
        _refuse(model, mistakes.in_attributes(model))
        if "Meta" in namespace:
            _refuse(model, mistakes.in_table(model, declared))
            model.tracker = Schema(model, Table(model))
        if "use_case_id" in declared:
            _declare_use_case(model, declared)
        else:
            _refuse(model, _without_use_case(model))


def _declared(cls: type, namespace: dict[str, Any]) -> dict[str, Any]:
    """Return what the class body says, and what plain classes that it is mixed with say."""
    mixins = [base for base in cls.__mro__[1:] if not isinstance(base, MetaModel) and base.__module__ != "builtins"]
    mixins = [base for base in mixins if not base.__module__.startswith("pynamodb.")]
    return {name: value for base in reversed(mixins) for name, value in vars(base).items()} | namespace


def _refuse(model: type[TaskRow], found: Iterator[str]) -> None:
    for mistake in found:
        raise DefinitionError(f"{model.__name__}{mistake}")


def _complete(meta: Any) -> None:
    """Fill in what Meta leaves out: on-demand capacity, and a client that fits locks and threads."""
    if not (hasattr(meta, "billing_mode") or hasattr(meta, "read_capacity_units")):
        meta.billing_mode = "PAY_PER_REQUEST"
    for name, value in _META_DEFAULTS.items():
        if not hasattr(meta, name) and get_settings_value(name) == default_settings_dict[name]:
            setattr(meta, name, value)


def _without_use_case(model: type[TaskRow]) -> Iterator[str]:
    write = f"write use_case_id = UseCase(...) in {model.__name__}"
    if isinstance(model.use_case_id, UseCase):
        yield f" inherits the use case {model.use_case_id.name!r}, which has its class: {write}, with another name"
    for step in _steps(model):
        yield f".{step.name} is a step of no use case: {write}"


def _declare_use_case(model: type[TaskRow], declared: dict[str, Any]) -> None:
    use_case = declared["use_case_id"]
    _refuse(model, mistakes.in_use_case(model, use_case, declared))
    steps = sorted(_steps(model), key=lambda step: step.number if type(step.number) is int else 0)
    _refuse(model, mistakes.in_steps(steps))
    following = [step.number for step in steps[1:]] + [END]
    codes = [Codes(step.name, step.number, after) for step, after in zip(steps, following, strict=True)]
    table = model.tracker.table
    model.tracker = Schema(model, table, use_case, codes)
    states = {code: State(model, each.step, status, code) for each in codes for code, status in each.own.items()}
    states[END] = State(model, codes[-1].step, Status.SUCCEEDED, END)
    bound = {step.name: BoundStep(model, step, each, states) for step, each in zip(steps, codes, strict=True)}
    model._bound_steps, model._states = bound, states  # noqa: SLF001 - the metaclass makes them
    for name, step in bound.items():
        setattr(model, name, step)
        try:
            step.allow_from(step.declared.also_from)
        except ValueError as error:
            raise DefinitionError(f"{model.__name__}.{step.name}: {error}; write also_from=(ship.failed,)") from None
    table.claim(use_case.name, model)


def _steps(model: type) -> Iterator[Step]:
    """Yield the steps that a class declares or inherits."""
    found: dict[str, object] = {}
    for base in reversed(model.__mro__):
        found.update(vars(base))
    declared = (value.declared if isinstance(value, BoundStep) else value for value in found.values())
    return (value for value in declared if isinstance(value, Step))
