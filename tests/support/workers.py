"""What workers do to a task: succeed, fail, or die."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pynamodb_tracker import BoundStep


class Broken(Exception):  # noqa: N818 - a user's own exception
    pass


@dataclass(frozen=True)
class FrozenError(Exception):
    """An exception that accepts neither notes nor other attributes."""

    why: str


def raising(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    """Return a function of any arguments that raises this."""

    def function(*_: object, **__: object) -> None:
        raise error

    return function


_DEAD: list[object] = []


def succeed(step: BoundStep[Any], *task_ids: str) -> None:
    for task_id in task_ids:
        with step.start(task_id):
            pass


def fail(step: BoundStep[Any], task_id: str, error: BaseException | None = None) -> None:
    """Run a step with a block that raises, and check that the same error is raised outside."""
    error = error or Broken("it broke")
    with pytest.raises(type(error)) as caught, step.start(task_id):
        raise error
    assert caught.value is error


def die(step: BoundStep[Any], task_id: str, **options: Any) -> None:
    """Start a step like a worker that dies. Not even the garbage collector ends its run."""
    run = step.start(task_id, **options)
    run.__enter__()
    _DEAD.append(run)


def entered(step: BoundStep[Any], task_id: str, **options: Any) -> Any:
    """Enter a run, and return it to be left later."""
    run: Any = step.start(task_id, **options)
    run.__enter__()
    return run
