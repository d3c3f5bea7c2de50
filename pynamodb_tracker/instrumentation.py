"""Hooks: code of yours, or of a monitoring library, that is called when tasks are created, run and refused.

A hook is registered for the whole process, by a call: nothing is observed because a package can be imported. Without
hooks, a run and a creation look once at an empty tuple.
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
    """One run of a step of a task, as hooks see it; `outcome`, `duration` and `error` are set once it has ended."""

    __slots__ = (
        "__weakref__",  # hooks may keep something for each run that has not ended
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
        """The name of the step."""
        self.task_id = task_id
        self.start_time = start_time
        """When the task was claimed, before the request was sent."""
        self.task: Any = None
        """The row, which the block may change; None if the claim was refused."""
        self.attempt: int | None = None
        """Which attempt of the step it is, from 1; None if the claim was refused."""
        self.fence: int | None = None
        """Which claim of the task it is, from 1; None if the claim was refused."""
        self.took_over = False
        """Whether the run before it did not end: its worker died, or lost the lock."""
        self.outcome: Literal["succeeded", "failed", "ignored", "released", "refused"] | None = None
        """What is on record; refused: the task was not started, or its end could not be recorded."""
        self.skipped_occurrence = False
        """Whether the task repeats, and no attempt is left for this occurrence: it waits for the next one."""
        self.postponed = False
        """Whether it failed by RetryLater(..., use_attempt=False), and its attempt does not count."""
        self.error: BaseException | None = None
        """Why the task was not started, what the block raised, or why its end could not be recorded."""
        self.duration = timedelta(0)
        """How long it took, including the requests at its start and its end."""

    @property
    def log_fields(self) -> dict[str, object]:
        """What every log record about the run has as `extra`."""
        return log_fields(self.use_case_id, self.step, self.task_id, self.attempt, self.fence)

    def __repr__(self) -> str:
        return f"<RunDetails {self.use_case_id}.{self.step} {self.task_id!r} {self.outcome or 'running'}>"


class Hook:
    """Called when tasks are created, run and refused: override the methods that you need, and register an instance.

    An Exception that a method raises is logged, and changes nothing for the task. Methods are called by the thread that
    does the work, so they have to be quick, and those of one hook may be called at the same time.

    Examples:
        >>> class Printer(Hook):
        ...     def on_end(self, run):
        ...         print(run.task_id, run.outcome)
    """

    def on_create(self, use_case_id: str, task_id: str) -> Mapping[str, str] | None:
        """Return entries for the `trace` of a task that is about to be created; None for none.

        If its creator gives one of them, that has priority, and none of these is stored. Nor are they if they do not
        fit into the 512 bytes of a trace, which is logged.
        """

    def on_start(self, run: RunDetails) -> AbstractContextManager[object] | None:
        """Return what to enter around the block of a task that was claimed; None for nothing.

        It is entered before the block, and left once its end is recorded, in the context of the block, so that it may
        set context variables. It cannot suppress an exception.
        """

    def on_end(self, run: RunDetails) -> None:
        """Take note of the end of a run, before what `on_start` returned is left; called once for each start.

        If a worker releases the task while the block still runs, it is called in another thread than the block's, and
        may come after the block has been left.
        """

    def on_refuse(self, run: RunDetails) -> None:
        """Take note of a task that was not started; the `error` of the run says why."""

    def on_lock_lost(self, run: RunDetails, error: Exception) -> None:
        """Take note that the lock of a run is lost, as the row has shown to a heartbeat or a write; called once."""


_METHODS = ("on_create", "on_start", "on_end", "on_refuse", "on_lock_lost")

_NOT_PLAIN = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR

_guard = threading.Lock()

hooks: tuple[Hook, ...] = ()
"""Those that are registered; replaced as a whole, never changed: a run keeps those with which it began."""


def add_hook(hook: Hook) -> Callable[[], None]:
    """Call the hook for everything that happens in this process from now on; what is returned removes it.

    Runs that have begun by then are not affected. The same hook can be added once: ValueError. TypeError if one of its
    methods is async, or a generator.

    Examples:
        >>> remove = add_hook(Hook())
        >>> remove()
    """
    global hooks  # noqa: PLW0603 - one list of hooks for the whole process
    if not isinstance(hook, Hook):
        raise TypeError(f"add_hook takes an instance of a subclass of Hook, not {hook!r}")
    for name in _METHODS:
        if getattr(getattr(getattr(hook, name), "__code__", None), "co_flags", 0) & _NOT_PLAIN:
            raise TypeError(
                f"{name} of {hook!r} is an async or generator function, whose body would not run: write a plain "
                "function, and add @contextmanager to an on_start that yields"
            )
    with _guard:
        if any(each is hook for each in hooks):
            raise ValueError(f"{hook!r} was added before: remove it first")
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
    """Return the `extra` of a log record: the same fields wherever it comes from; None for what is not known."""
    return {"use_case_id": use_case_id, "step": step, "task_id": task_id, "attempt": attempt, "fence": fence}


def notify(hook: Hook, method: str, run: RunDetails, *args: object) -> None:
    """Call a method of a hook about a run; an Exception is logged."""
    try:
        getattr(hook, method)(run, *args)
    except Exception:
        log.exception("%s of the hook %r raised", method, hook, extra=run.log_fields)


def trace_of(use_case_id: str, task_id: str, given: Collection[str]) -> dict[str, str]:
    """Return the entries that hooks have for the trace of a new task, whose creator gives those of these names.

    The entries of a hook belong together, as a traceparent and its tracestate do: if one is given, none of them counts.
    """
    entries: dict[str, str] = {}
    for hook in hooks:
        try:
            own = _checked_entries(hook.on_create(use_case_id, task_id))
        except Exception:
            text = "on_create of the hook %r raised, and nothing of it is stored"
            log.exception(text, hook, extra=log_fields(use_case_id, task_id=task_id))
            continue
        if not any(name in given for name in own):
            entries.update(own)
    return entries


def _checked_entries(given: object) -> dict[str, str]:
    """Return what an `on_create` has returned, as a dictionary; TypeError for what cannot be stored."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        entries = dict(given)
        if all(isinstance(text, str) for entry in entries.items() for text in entry):
            return entries
    raise TypeError(f"on_create has to return a mapping of text to text, or None, not {type(given).__name__}")
