"""What workers do to a task: succeed, fail, and die."""

from dataclasses import dataclass
from typing import Any

import pytest

from pynamodb_tracker import BoundStep


class Broken(Exception):  # noqa: N818 - a user's own
    """What a block fails with."""


@dataclass(frozen=True)
class FrozenError(Exception):
    """One that takes no note, and no other attribute either."""

    why: str


_DEAD: list[object] = []


def succeed(step: BoundStep[Any], *task_ids: str) -> None:
    """Run a step of these tasks, with nothing in the block."""
    for task_id in task_ids:
        with step.start(task_id):
            pass


def fail(step: BoundStep[Any], task_id: str, error: BaseException | None = None) -> None:
    """Run a step with a block that raises the error, and check that this error left."""
    error = error or Broken("it broke")
    with pytest.raises(type(error)) as caught, step.start(task_id):
        raise error
    assert caught.value is error


def die(step: BoundStep[Any], task_id: str, **options: Any) -> None:
    """Start a step as a worker does that is never heard of again: not even the garbage collector finds its run."""
    run = step.start(task_id, **options)
    run.__enter__()
    _DEAD.append(run)
