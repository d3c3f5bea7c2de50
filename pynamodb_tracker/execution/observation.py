"""Calls a run's hooks, and enters their context managers around its block."""

import threading
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.exceptions import LockLostError, TaskNotStartableError
from pynamodb_tracker.instrumentation import Hook, RunDetails, log, notify
from pynamodb_tracker.transitions import Journal


class Observation:
    """A run's details, its own hooks, and the process's hooks at its claim."""

    __slots__ = ("_begun", "_entered", "_guard", "_has_ended", "_journal", "_own", "details", "hooks")

    def __init__(self, details: RunDetails, *own: Hook) -> None:
        self.details = details
        self.hooks = self._own = own
        self._journal: Journal[Any] | None = None
        self._guard = threading.Lock()
        self._begun = 0  # how many hooks were started: they get `on_end`, the others `on_refuse`
        self._has_ended = False
        self._entered: list[tuple[Hook, AbstractContextManager[object]]] = []

    def add(self, hooks: tuple[Hook, ...]) -> None:
        self.hooks = (*self._own, *hooks)

    def note_claim(self, journal: Journal[Any]) -> None:
        self._journal = journal
        journal.on_loss = self._lose
        details, claim = self.details, journal.claim
        details.task, details.attempt, details.fence = claim.task, claim.attempt, claim.fence
        details.took_over = claim.took_over

    def begin(self) -> None:
        """Call `on_start`, and enter the context managers that it returns, in the block's context."""
        for hook in self.hooks:
            with self._guard:
                if self._has_ended:  # another thread has given the task back
                    return
                self._begun += 1
            try:
                manager = hook.on_start(self.details)
                if manager is not None:
                    manager.__enter__()
                    self._entered.append((hook, manager))
            except Exception:
                log.exception("on_start of the hook %r raised", hook, extra=self.details.log_fields)

    def refuse(self, error: BaseException) -> None:
        """Call `on_refuse` because the block never starts, or `on_end` if an interrupt came after `on_start`."""
        try:
            self.end(error)
        finally:
            self.leave(error)

    def end(self, error: BaseException | None) -> None:
        """Call `on_end` with the recorded outcome, and the error of the block or of its end."""
        with self._guard:
            if self._has_ended:
                return
            self._has_ended = True
        details = self.details
        details.outcome = (self._journal and self._journal.outcome) or "refused"
        by = self._journal or error  # a refused claim may have found no attempt left
        details.postponed = self._journal is not None and self._journal.postponed
        details.skipped_occurrence = isinstance(by, Journal | TaskNotStartableError) and by.skipped_occurrence
        details.error = error
        details.duration = max(clock.now() - details.start_time, timedelta(0))  # a clock may be set back
        self._call("on_end", "on_refuse")

    def leave(self, error: BaseException | None) -> None:
        """Leave the context managers, the last one first, and then raise an interrupt that came in between."""
        if self._journal is not None:
            self._journal.on_loss = None  # otherwise only the garbage collector could free both and the row
        interrupt: BaseException | None = None
        left = (None, None, None) if error is None else (type(error), error, error.__traceback__)  # it may be falsy
        while self._entered:
            hook, manager = self._entered.pop()
            try:
                manager.__exit__(*left)
            except BaseException as raised:
                if not isinstance(raised, Exception):
                    interrupt = interrupt or (None if raised is error else raised)
                elif raised is not error:
                    log.exception("the context manager of the hook %r raised", hook, extra=self.details.log_fields)
        if interrupt is not None:
            raise interrupt

    def _lose(self, error: LockLostError) -> None:
        self._call("on_lock_lost", None, error)

    def _call(self, if_begun: str, otherwise: str | None, *about: object) -> None:
        """Call a method of each hook that has begun, and one of the others. Then raise the first interrupt."""
        interrupt: BaseException | None = None
        for number, hook in enumerate(self.hooks):
            method = if_begun if number < self._begun else otherwise
            try:
                if method is not None:
                    notify(hook, method, self.details, *about)
            except BaseException as raised:  # noqa: BLE001 - raised below
                interrupt = interrupt or raised
        if interrupt is not None:
            raise interrupt
