"""Hooks: your own code, or a monitoring library's, that is called when tasks are created, run and refused."""

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
    """A run, as hooks see it. `outcome`, `duration` and `error` are set at its end."""

    def __init__(self, use_case_id: str, step: str, task_id: str, start_time: datetime) -> None:
        self.use_case_id = use_case_id
        self.step = step
        """The step's name."""
        self.task_id = task_id
        self.start_time = start_time
        """When the claim was sent."""
        self.task: Any = None
        """The row, which the block may change. Like `attempt` and `fence`, it is None after a refused claim."""
        self.attempt: int | None = None
        """The attempt's number, from 1."""
        self.fence: int | None = None
        """The claim's number, from 1."""
        self.took_over = False
        """Whether the previous run never ended, because its worker died or lost the lock."""
        self.outcome: Literal["succeeded", "failed", "ignored", "released", "refused"] | None = None
        """The recorded result. "refused" means that the task did not start, or its outcome could not be recorded."""
        self.skipped_occurrence = False
        """Whether a repeating task has used up its attempts for this occurrence, and waits for the next one."""
        self.postponed = False
        """Whether the attempt does not count, after RetryLater(..., use_attempt=False)."""
        self.error: BaseException | None = None
        """The refusal, the block's exception, or the error that prevented recording the outcome."""
        self.duration = timedelta(0)
        """How long the run took, including its first and last request."""

    @property
    def log_fields(self) -> dict[str, object]:
        """The `extra` for log records about this run."""
        return log_fields(self.use_case_id, self.step, self.task_id, self.attempt, self.fence)

    def __repr__(self) -> str:
        return f"<RunDetails {self.use_case_id}.{self.step} {self.task_id!r} {self.outcome or 'running'}>"


class Hook:
    """Called when tasks are created, run and refused. Override methods, and register an instance with `add_hook`.

    Methods must be quick and thread-safe, because they run in the workers' threads. If a method raises an Exception, it
    is logged, and the task is not affected.

    Examples:
        >>> class Printer(Hook):
        ...     def on_end(self, run):
        ...         print(run.task_id, run.outcome)
    """

    def on_create(self, use_case_id: str, task_id: str) -> Mapping[str, str] | None:
        """Return entries for a new task's `trace`, or None.

        They are dropped if `create` got one of the same names, or with a log record if they exceed the trace's 512
        bytes.
        """

    def on_start(self, run: RunDetails) -> AbstractContextManager[object] | None:
        """Return a context manager to enter around the block, or None.

        It is left after the outcome is recorded. It runs in the block's context, so it may set context variables. It
        cannot suppress an exception.
        """

    def on_end(self, run: RunDetails) -> None:
        """Handle a run's end, once per start, before the context manager from `on_start` is left.

        If a worker releases the task while the block is still running, this runs in another thread than the block.
        """

    def on_refuse(self, run: RunDetails) -> None:
        """Handle a task that was not started. `run.error` says why."""

    def on_lock_lost(self, run: RunDetails, error: Exception) -> None:
        """Handle a lost lock, once per run, as soon as a heartbeat or a write notices it."""


_METHODS = ("on_create", "on_start", "on_end", "on_refuse", "on_lock_lost")

_NOT_PLAIN = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR

_guard = threading.Lock()

hooks: tuple[Hook, ...] = ()
"""The registered hooks. Each change replaces the tuple, so a run keeps its hooks to the end."""


def add_hook(hook: Hook) -> Callable[[], None]:
    """Call the hook for all runs in this process that begin from now on.

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
                f"{name} of {hook!r} must be a plain function, not async or a generator: add @contextmanager to an "
                "on_start that yields"
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
    """Return the `extra` for log records, which all have these fields. None means unknown."""
    return {"use_case_id": use_case_id, "step": step, "task_id": task_id, "attempt": attempt, "fence": fence}


def notify(hook: Hook, method: str, run: RunDetails, *args: object) -> None:
    """Call a hook's method about a run, and log any Exception."""
    try:
        getattr(hook, method)(run, *args)
    except Exception:
        log.exception("%s of hook %r raised", method, hook, extra=run.log_fields)


def trace_of(use_case_id: str, task_id: str, given: Collection[str]) -> dict[str, str]:
    """Return the hooks' entries for a new task's trace, except of hooks with a name that `create` was given.

    A hook's entries belong together, like a traceparent and its tracestate.
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
    entries = {} if given is None else given
    if isinstance(entries, Mapping) and all(isinstance(text, str) for entry in entries.items() for text in entry):
        return dict(entries)
    raise TypeError(f"on_create must return a mapping of text to text, or None, not {type(given).__name__}")
