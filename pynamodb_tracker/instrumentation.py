"""Hooks: your own code, or a monitoring library, that is called when tasks are created, run and refused.

You register a hook for the whole process. Importing a package never does that. Without hooks, a run costs one look at
an empty tuple.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from typing import Any, Literal

__all__ = ["Hook", "RunDetails", "add_hook"]

log = logging.getLogger("pynamodb_tracker")


class RunDetails:
    """A run, as hooks see it. `outcome`, `duration` and `error` are set when it has ended."""

    __slots__ = (
        "__weakref__",  # hooks may remember runs that have not ended
        "attempt",
        "duration",
        "error",
        "fence",
        "outcome",
        "postponed",
        "skipped_occurrence",
        "start_time",
        "step",
        "task",
        "task_id",
        "took_over",
        "use_case_id",
    )

    def __init__(self, use_case_id: str, step: str, task_id: str, start_time: datetime) -> None:
        self.use_case_id = use_case_id
        self.step = step
        """The step's name."""
        self.task_id = task_id
        self.start_time = start_time
        """When the task was claimed, before the request was sent."""
        self.task: Any = None
        """The row, which the block may change, or None if the claim was refused."""
        self.attempt: int | None = None
        """The number of this attempt, from 1, or None if the claim was refused."""
        self.fence: int | None = None
        """The number of this claim, from 1, or None if the claim was refused."""
        self.took_over = False
        """Whether the previous run never ended, because its worker died or lost the lock."""
        self.outcome: Literal["succeeded", "failed", "ignored", "released", "refused"] | None = None
        """The recorded outcome. "refused" means that the task did not start, or its outcome could not be recorded."""
        self.skipped_occurrence = False
        """Whether a repeating task has no attempts left for this occurrence, and waits for the next one."""
        self.postponed = False
        """Whether the attempt failed with RetryLater(..., use_attempt=False), so it does not count."""
        self.error: BaseException | None = None
        """The refusal, the block's exception, or the error that prevented recording the outcome."""
        self.duration = timedelta(0)
        """How long the run took, including its first and last request."""

    @property
    def log_fields(self) -> dict[str, object]:
        """Return the `extra` for all log records about this run."""
        return log_fields(self.use_case_id, self.step, self.task_id, self.attempt, self.fence)

    def __repr__(self) -> str:
        return f"<RunDetails {self.use_case_id}.{self.step} {self.task_id!r} {self.outcome or 'running'}>"


class Hook:
    """Called when tasks are created, run and refused. Override the methods that you need, and register an instance.

    Methods must be quick, because they run in the worker's thread, and several threads may call them at the same time.
    If a method raises an Exception, it is logged, and the task is not affected.

    Examples:
        >>> class Printer(Hook):
        ...     def on_end(self, run):
        ...         print(run.task_id, run.outcome)
    """

    def on_create(self, use_case_id: str, task_id: str) -> Mapping[str, str] | None:
        """Return entries for a new task's `trace`, or None.

        None of them is stored if `create` already got one by the same name, or if they exceed the trace's 512 bytes.
        The latter is logged.
        """

    def on_start(self, run: RunDetails) -> AbstractContextManager[object] | None:
        """Return a context manager to enter around the block, or None.

        It is entered before the block and left after the outcome is recorded. It runs in the block's context, so it may
        set context variables. It cannot suppress an exception.
        """

    def on_end(self, run: RunDetails) -> None:
        """Handle a run that has ended. It is called once per start, before leaving the context manager from `on_start`.

        If a worker releases the task while the block is still running, this is called in a thread other than the
        block's, perhaps after the block has ended.
        """

    def on_refuse(self, run: RunDetails) -> None:
        """Handle a task that was not started. `run.error` says why."""

    def on_lock_lost(self, run: RunDetails, error: Exception) -> None:
        """Handle a lost lock, which a heartbeat or a write has discovered. It is called once per run."""


_METHODS = ("on_create", "on_start", "on_end", "on_refuse", "on_lock_lost")

_NOT_PLAIN = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR

_guard = threading.Lock()

hooks: tuple[Hook, ...] = ()
"""The registered hooks. The tuple is replaced and never changed, so each run keeps the hooks that it began with."""


def add_hook(hook: Hook) -> Callable[[], None]:
    """Call the hook from now on, for all tasks in this process. Runs that have already begun are not affected.

    Returns:
        A function that removes the hook.

    Raises:
        ValueError: The hook was already added.
        TypeError: A method is async, or a generator.

    Examples:
        >>> remove = add_hook(Hook())
        >>> remove()
    """
    global hooks  # noqa: PLW0603 - the whole process shares the hooks
    if not isinstance(hook, Hook):
        raise TypeError(f"add_hook takes an instance of your subclass of Hook, not {hook!r}")
    for name in _METHODS:
        if getattr(getattr(getattr(hook, name), "__code__", None), "co_flags", 0) & _NOT_PLAIN:
            raise TypeError(
                f"{name} of {hook!r} is an async or generator function, which would not run: write a plain "
                "function, and add @contextmanager to an on_start that yields"
            )
    with _guard:
        if any(each is hook for each in hooks):
            raise ValueError(f"{hook!r} was already added: remove it first")
        hooks = (*hooks, hook)

    def remove() -> None:
        global hooks  # noqa: PLW0603 - as above
        with _guard:
            hooks = tuple(each for each in hooks if each is not hook)

    return remove


def log_fields(
    use_case_id: str,
    step: str | None = None,
    task_id: str | None = None,
    attempt: int | None = None,
    fence: int | None = None,
) -> dict[str, object]:
    """Return the `extra` for log records. All records have these fields, and None stands for an unknown value."""
    return {"use_case_id": use_case_id, "step": step, "task_id": task_id, "attempt": attempt, "fence": fence}


def notify(hook: Hook, method: str, run: RunDetails, *args: object) -> None:
    """Call a hook's method about a run, and log any Exception."""
    try:
        getattr(hook, method)(run, *args)
    except Exception:
        log.exception("%s of hook %r raised", method, hook, extra=run.log_fields)


def trace_of(use_case_id: str, task_id: str, given: Collection[str]) -> dict[str, str]:
    """Return the hooks' entries for a new task's trace. `given` contains the names that `create` already got.

    A hook's entries belong together, like a traceparent and its tracestate. If one is given, all of them are dropped.
    """
    entries: dict[str, str] = {}
    for hook in hooks:
        try:
            own = _checked_entries(hook.on_create(use_case_id, task_id))
        except Exception:
            text = "on_create of hook %r raised, so none of its entries are stored"
            log.exception(text, hook, extra=log_fields(use_case_id, task_id=task_id))
            continue
        if not any(name in given for name in own):
            entries.update(own)
    return entries


def _checked_entries(given: object) -> dict[str, str]:
    """Return the entries from an `on_create` as a dictionary, or raise a TypeError if they are not text."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        entries = dict(given)
        if all(isinstance(text, str) for entry in entries.items() for text in entry):
            return entries
    raise TypeError(f"on_create has to return a mapping of text to text, or None, not {type(given).__name__}")
