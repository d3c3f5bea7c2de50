"""What a command is about: the use case, the step and the state that its arguments name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, cast

from pynamodb_tracker.arguments import did_you_mean
from pynamodb_tracker.cli.damaged import told_by_commands
from pynamodb_tracker.cli.exits import CannotRunError, check_connection, told
from pynamodb_tracker.cli.importer import load
from pynamodb_tracker.model.use_case import UseCase
from pynamodb_tracker.status import Status
from pynamodb_tracker.step.bound import BoundStep
from pynamodb_tracker.step.state import State
from pynamodb_tracker.task.task import Task

__all__ = ["check_window", "name_of", "state_named", "step_among", "step_named", "steps_of", "use_case", "use_cases"]


_UNKNOWN = "unknown"
"""Stands for the step in the name of a state that no step declares."""


@contextmanager
def use_case(app: str, name: str | None) -> Iterator[type[Task]]:
    """Yield the use case that `--app` and `--use-case` name; what goes wrong with it is told, and the command exits."""
    with told():
        model = _chosen(load(app), app, name)
    with told(model), told_by_commands():
        check_connection(model)
        yield model


@contextmanager
def use_cases(app: str, name: str | None) -> Iterator[list[type[Task]]]:
    """Yield the use case that is named, or all of a table, for a command that is as well about a table."""
    with told():
        model = load(app)
        known = _known(model, app)
        alone = name is not None or _is_use_case(model)
        models = [_chosen(model, app, name)] if alone else list(known.values())
    with told(models[0]):
        check_connection(models[0])
        yield models


def _is_use_case(model: type[Task]) -> bool:
    return isinstance(vars(model).get("use_case_id"), UseCase)


def _known(model: type[Task], app: str) -> dict[str, type[Task]]:
    """Return the use cases of the table that are imported."""
    known = cast("dict[str, type[Task]]", dict(sorted(model.tracker.table.use_cases.items())))
    if not known:
        raise CannotRunError(f"{app} is a table of which no use case is imported: name the class of one with --app")
    return known


def _chosen(model: type[Task], app: str, name: str | None) -> type[Task]:
    if name is None and _is_use_case(model):
        return model
    known = _known(model, app)
    named = ", ".join(f"--use-case {key}" for key in known)
    if name is not None:
        found = next((each for key, each in known.items() if name in (key, each.__name__)), None)
        if found is None:
            hint = did_you_mean(name, known) or f"; there is {', '.join(known)}"
            raise CannotRunError(f"{app} has no use case {name!r}{hint}")
        return found
    if len(known) > 1:
        raise CannotRunError(f"{app} is a table with {len(known)} use cases: add one of {named}")
    return next(iter(known.values()))


def steps_of(model: type[Task]) -> list[BoundStep[Any]]:
    """Return the steps of a use case, in order."""
    return [getattr(model, codes.step) for codes in model.tracker.steps]


def step_named(model: type[Task], name: str) -> BoundStep[Any]:
    """Return a step by its name."""
    known = {step.name: step for step in steps_of(model)}
    if name not in known:
        hint = did_you_mean(name, known) or f"; its steps are {', '.join(known)}"
        raise CannotRunError(f"{model.__name__} has no step {name!r}{hint}")
    return known[name]


def step_among(models: Sequence[type[Task]], name: str) -> BoundStep[Any]:
    """Return a step of several use cases by its name, as `ship` where one of them has it, or as `order.ship`."""
    use_case_name, _, step = name.rpartition(".")
    known = {model.tracker.use_case.name: model for model in models}
    if use_case_name:
        found = [model for key, model in known.items() if use_case_name in (key, model.__name__)]
        if not found:
            hint = did_you_mean(use_case_name, known) or f"; there is {', '.join(known)}"
            raise CannotRunError(f"{name}: no use case {use_case_name!r} of those that --app and --use-case name{hint}")
    else:
        found = [model for model in models if step in {each.name for each in steps_of(model)}]
    if len(found) > 1:
        choices = ", ".join(f"{model.tracker.use_case.name}.{step}" for model in found)
        raise CannotRunError(f"{len(found)} use cases have a step {step!r}: write one of {choices}")
    if not found and len(models) > 1:
        steps = {f"{key}.{each.name}": each.name for key, model in known.items() for each in steps_of(model)}
        hint = did_you_mean(step, steps.values()) or f"; there is {', '.join(steps)}"
        raise CannotRunError(f"none of {len(models)} use cases has a step {step!r}{hint}")
    return step_named(found[0] if found else models[0], step)


def state_named(model: type[Task], name: str) -> State[Any]:
    """Return a state by its name, as in `ship.failed`."""
    step, _, status = name.rpartition(".")
    if step == _UNKNOWN and status.isdecimal() and step not in {each.name for each in steps_of(model)}:
        return State(model, "", None, int(status))
    if not step:
        raise CannotRunError(f"{name!r} is no state: write STEP.STATE, as in {steps_of(model)[0].name}.failed")
    bound, known = step_named(model, step), [str(each) for each in Status]
    if status not in known:
        hint = did_you_mean(status, known) or f"; the states of a step are {', '.join(known)}"
        raise CannotRunError(f"{step} has no state {status!r}{hint}")
    state: State[Any] = getattr(bound, status)
    return state


def check_window(since: datetime | None, until: datetime | None) -> None:
    """Refuse a window that nothing can be in."""
    if since is not None and until is not None and since >= until:
        raise CannotRunError(f"the window is empty: --since {since} is not before --until {until}")


def name_of(state: State[Any]) -> str:
    """Return the name of a state as the commands read it, `ship.failed`; `unknown.77` is a code of no step."""
    return f"{state.step}.{state.status}" if state.status else f"{_UNKNOWN}.{state.code}"
