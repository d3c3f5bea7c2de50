"""What a handler does for each record: whose task it is, how that is run, and what the caller is told."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from pynamodb_tracker.arguments import check_function, shown
from pynamodb_tracker.aws_lambda.attempt import Attempt
from pynamodb_tracker.aws_lambda.event import Record, TaskId, by_function, read_task_id
from pynamodb_tracker.aws_lambda.invocation import Invocation
from pynamodb_tracker.aws_lambda.replies import Replies
from pynamodb_tracker.aws_lambda.trigger import Trigger
from pynamodb_tracker.execution.context import ExecutionContext
from pynamodb_tracker.model.row import TaskRow
from pynamodb_tracker.step.bound import BoundStep

__all__ = ["Job", "check_function_of", "check_step"]

T = TypeVar("T", bound=TaskRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[T]):
    """A function, the step that it is for, and how records become calls of it."""

    step: BoundStep[T]
    function: Callable[[ExecutionContext[T], Any], Any]
    task_id: TaskId
    payload: Callable[[Any], Any] | None
    create_if_missing: bool | Callable[[Any], Mapping[str, Any]]
    replies: Replies
    answer: Callable[[T], Any] | None

    def __post_init__(self) -> None:
        """Refuse what cannot work, before the first event comes."""
        check_step(self.step)
        check_function_of(self.function, "ctx", "event")
        check_place(self.task_id)
        if not (isinstance(self.create_if_missing, bool) or callable(self.create_if_missing)):
            raise TypeError(
                "create_if_missing is True, False, or a function of the payload that returns attributes, "
                f"not {shown(self.create_if_missing)}"
            )
        if not isinstance(self.replies, Replies):
            raise TypeError(f"replies are Replies(...), not {shown(self.replies)}")
        for name, function in {"payload": self.payload, "answer": self.answer}.items():
            if not (function is None or callable(function)):
                raise TypeError(f"{name} is a function, not {shown(function)}")

    def run(self, record: Record, trigger: Trigger, invocation: Invocation) -> Attempt:
        """Run the step of the task that a record is about; UnreadableEventError where that cannot be told."""
        payload = by_function("payload", self.payload or trigger.payload, record.content)
        attempt = Attempt(self.step, read_task_id(self.task_id, payload), invocation)
        attributes = partial(self._attributes, payload) if self.create_if_missing else None
        attempt.run(lambda ctx: self.function(ctx, payload), attributes)
        return attempt

    def answer_to(self, attempt: Attempt) -> Any:
        """Return what a direct caller gets: nothing that this attempt made, unless it succeeded."""
        task = attempt.task
        if attempt.ctx is None or attempt.outcome == "succeeded":
            if self.answer is not None and task is not None:
                return self.answer(task)
            if attempt.value is not None:
                return attempt.value
        state = None if task is None else str(task.state)
        return {"task_id": attempt.task_id, "use_case_id": self.step.model.tracker.use_case.name, "state": state}

    def _attributes(self, payload: Any) -> Mapping[str, Any]:
        if not callable(self.create_if_missing):
            return {}
        attributes: Mapping[str, Any] = by_function("create_if_missing", self.create_if_missing, payload)
        return attributes


def check_place(task_id: object) -> None:
    """Refuse what is no place of a task id."""
    if not (callable(task_id) or (isinstance(task_id, str) and all(task_id.split(".")))):
        raise TypeError(
            'task_id is keys with dots between them, such as "detail.order_id", or a function of the payload, '
            f"not {shown(task_id)}"
        )


def check_function_of(function: Callable[..., Any], *names: str) -> None:
    """Refuse what is no function, cannot be called with these, or has them as Lambda's own handlers do."""
    check_function(function)
    try:
        parameters = inspect.signature(function)
    except ValueError:  # some of those that are written in C tell nothing
        return
    try:
        parameters.bind(*names)
    except TypeError as error:
        raise TypeError(f"this takes a function of ({', '.join(names)}), not {shown(function)}: {error}") from None
    if list(parameters.parameters)[:2] == ["event", "context"]:
        raise TypeError(f"this takes a function of ({', '.join(names)}), and {shown(function)} has (event, context)")


def check_step(step: object) -> None:
    """Refuse what is no step of a use case."""
    if not isinstance(step, BoundStep):
        raise TypeError(f"this takes a step of a use case, such as Order.ship, not {shown(step)}")
