"""A run as its hooks see it: which of their methods are called when, and what they have entered around the block."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from pynamodb_tracker import clock
from pynamodb_tracker.exceptions import LockLostError
from pynamodb_tracker.instrumentation import Hook, RunDetails, notify
from pynamodb_tracker.transitions import Lock

log = logging.getLogger("pynamodb_tracker")


class Observation:
    """The details of one run, kept up to date, and its hooks: its own, and those that were registered at its claim."""

    __slots__ = ("_entered", "_has_begun", "_lock", "_own", "details", "hooks")

    def __init__(self, details: RunDetails, *own: Hook) -> None:
        self.details = details
        self.hooks = self._own = own
        self._lock: Lock[Any] | None = None
        self._has_begun = False
        self._entered: list[tuple[Hook, AbstractContextManager[object]]] = []

    def add(self, hooks: tuple[Hook, ...]) -> None:
        """Call these hooks, too, which are registered for the whole process."""
        self.hooks = (*self._own, *hooks)

    def note_claim(self, lock: Lock[Any]) -> None:
        """Keep what is known of the run once its task is claimed."""
        self._lock = lock
        lock.on_loss = self._lose
        details = self.details
        details.task, details.attempt, details.fence = lock.task, lock.attempt, lock.fence
        details.took_over = lock.took_over

    def begin(self) -> None:
        """Call `on_start`, and enter the context managers that it returns, in the context of the block."""
        self._has_begun = True
        for hook in self.hooks:
            try:
                manager = hook.on_start(self.details)
                if manager is not None:
                    manager.__enter__()
                    self._entered.append((hook, manager))
            except Exception:
                log.exception("on_start of the hook %r raised", hook, extra=self.details.log_fields)

    def abandon(self, error: BaseException) -> None:
        """Call `on_refuse`, because the block never starts; or end what has begun, if an interrupt came after that."""
        if self._has_begun:
            try:
                self.end(error)
            finally:
                self.leave(error)
        else:
            self._conclude(error)
            self._call("on_refuse")

    def end(self, error: BaseException | None) -> None:
        """Call `on_end` with what is on record, and with the error of the block, or of recording its end."""
        self._conclude(error)
        self._call("on_end")

    def leave(self, error: BaseException | None) -> None:
        """Leave what was entered, the last one first; an interrupt is raised once all of them are left."""
        if self._lock is not None:
            self._lock.on_loss = None  # otherwise only the garbage collector could free both, and the row
        interrupt: BaseException | None = None
        while self._entered:
            hook, manager = self._entered.pop()
            try:
                manager.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
            except BaseException as raised:
                if raised is error:
                    continue
                if not isinstance(raised, Exception):
                    interrupt = interrupt or raised
                    continue
                log.exception("the context manager of the hook %r raised", hook, extra=self.details.log_fields)
        if interrupt is not None:
            raise interrupt

    def _conclude(self, error: BaseException | None) -> None:
        details = self.details
        details.outcome = (self._lock and self._lock.outcome) or "refused"
        details.error = error
        details.duration = max(clock.now() - details.start_time, timedelta(0))  # a clock may be set back

    def _lose(self, error: LockLostError) -> None:
        self._call("on_lock_lost", error)

    def _call(self, method: str, *args: object) -> None:
        for hook in self.hooks:
            notify(hook, method, self.details, *args)
