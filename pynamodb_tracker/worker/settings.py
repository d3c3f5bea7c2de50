"""The functions and options of a worker and its processes, and checks of them."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from pynamodb.exceptions import PynamoDBException

from pynamodb_tracker import arguments
from pynamodb_tracker.dynamodb.error_codes import is_temporary
from pynamodb_tracker.instrumentation import log_fields
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.step.bound import BoundStep, bound_functions

F = TypeVar("F")

log = logging.getLogger("pynamodb_tracker")

POLL_INTERVAL = timedelta(seconds=2)
"""The default of `max_poll_interval`."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a worker, which also go to its processes."""

    functions: Sequence[tuple[BoundStep[Any], Callable[[Any], object]]]
    concurrency: int
    heartbeat: bool
    rate: float | None
    grace: timedelta
    max_poll_interval: timedelta
    until_idle: bool = False

    def __post_init__(self) -> None:
        """Refuse bad options. Each worker checks `concurrency`, under its own name, and the whole `rate`."""
        arguments.check_flags(heartbeat=self.heartbeat, until_idle=self.until_idle)
        grace: object = self.grace
        if not isinstance(grace, timedelta):
            raise TypeError(f"grace must be a timedelta, not {arguments.shown(grace)}: write timedelta(seconds=...)")
        if not timedelta(0) <= grace <= arguments.LONGEST:
            raise ValueError(f"grace is zero or more and at most {arguments.LONGEST.days} days, not {grace!r}")
        arguments.check_duration("max_poll_interval", self.max_poll_interval)


def functions_by_step(given: object, choose: Callable[[BoundStep[Any], Any], F]) -> dict[BoundStep[Any], F]:
    """Return the result of `choose` for each step and the function that is given for it or bound to it."""
    if isinstance(given, list | tuple):
        return bound_functions(given, choose)
    if not isinstance(given, Mapping) or not given:
        raise TypeError(
            "a worker takes use cases whose steps have functions, [Order], or a function for each step, "
            f"{{Order.ship: print_label}}, not {arguments.shown(given)}"
        )
    for step in given:
        if not isinstance(step, BoundStep):
            raise TypeError(f"{arguments.shown(step)} is no step of a use case: write Order.ship")
    return {step: choose(step, function) for step, function in given.items()}


def log_start(steps: Iterable[BoundStep[Any]], given: Iterable[object]) -> None:
    """Log what a worker runs, and warn of steps of the `given` use cases to which nobody has bound a function."""
    log.info("a worker runs %s", _names(steps))
    models = [each for each in given if isinstance(each, type) and issubclass(each, TaskRow)]
    unbound = [step for model in models for step in model._bound_steps.values() if step.function is None]
    if unbound:
        text = "no function is bound to %s: this worker does not run tasks there"
        log.warning(text, _names(unbound), extra=log_fields(unbound[0].model.tracker.use_case.name))


def _names(steps: Iterable[BoundStep[Any]]) -> str:
    return ", ".join(f"{step.model.__name__}.{step.name}" for step in steps)


def check_tables(steps: Iterable[BoundStep[Any]]) -> None:
    """Raise an error that would make every poll fail, such as a missing table."""
    steps = list(steps)
    for step in steps:
        step._definition.check_caller()
    for step in steps:
        try:
            step._definition.pause()  # a DefinitionError about its numbers
            step._definition.check_index()
        except PynamoDBException as error:
            if not is_temporary(error):
                raise
            log.warning(
                "%s.%s cannot be polled yet; the worker keeps trying: %s",
                step.model.__name__,
                step.name,
                error,
                extra=log_fields(step.model.tracker.use_case.name, step.name),
            )
