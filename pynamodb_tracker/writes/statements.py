"""A step's writes: how they are completed, rendered and sent."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Generic, TypeVar

from pynamodb.attributes import UnicodeAttribute
from pynamodb.connection.table import TableConnection
from pynamodb.constants import RETURN_VALUES, STRING
from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, send
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.model.changes import Changes
from pynamodb_tracker.model.results import payload_attribute, result_attribute
from pynamodb_tracker.model.row import OF_ROUND, TaskRow, check_tracker_attributes, load
from pynamodb_tracker.status import END, Codes, end_of
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.conditions import Guard
from pynamodb_tracker.writes.participants import OptionalParticipant
from pynamodb_tracker.writes.prepared import PreparedWrite
from pynamodb_tracker.writes.transition import ONE_MORE, ZERO, Constant, Same, Stored, Transition

T = TypeVar("T", bound=TaskRow)

WAITS: Mapping[str, None] = dict.fromkeys(("blockers", "awaited_signals", "signals", "wait_until"))
"""Attributes that a new round removes even if they are newer than the row that was read."""
_MOST_SHAPES = 128
"""How many rendered writes a step keeps."""

WhenIgnored = Callable[[T], OptionalParticipant]
"""Returns the writes to make when a task is ignored. It gets the future row."""


class StepStatements(Generic[T]):
    """The writes for one step."""

    def __init__(
        self, model: type[T], codes: Codes, max_attempts: int, when_ignored: WhenIgnored[T] | None = None
    ) -> None:
        self.model = model
        self.codes = codes
        self.max_attempts = max_attempts
        self.when_ignored = when_ignored
        self._not_indexed = () if model.tracker.use_case.index_succeeded else (END,)
        self.has_expiry = model.tracker.use_case.has_expiry
        self.result = UnicodeAttribute(attr_name=result_attribute(codes.pending), null=True)
        self.payload = UnicodeAttribute(attr_name=payload_attribute(codes.pending))
        self._rendered: dict[tuple[Hashable, ...], PreparedWrite] = {}

    def send(
        self, transition: Transition, task_id: str, *, until: datetime | None = None, shows_row: bool = False
    ) -> dict[str, Any]:
        """Send a transition. With `shows_row`, a refusal contains the row, at no charge."""
        table, request = self.model.tracker.table.connection(), self._request(transition, task_id)
        if shows_row:
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        return send(table, "UpdateItem", request, until=until)

    def as_action(self, transition: Transition, task_id: str) -> dict[str, Any]:
        """Return a transition as a transaction's action."""
        request = self._request(transition, task_id)
        request.pop(RETURN_VALUES, None)
        return {"Update": {"TableName": self.table.table_name, **request}}

    def complete(self, transition: Transition, task_id: str) -> None:
        """Add the index key and times to a change of state, unless it sets them itself."""
        now = transition.time
        if now is None:
            return
        tracker, code, due = self.model.tracker, transition.code or 0, transition.due
        key = None if code in self._not_indexed else tracker.status_key(code, task_id, is_urgent=transition.is_urgent)
        moves: dict[str, Any] = {
            "status_key": key,
            "due_time": now if due is None or due <= now else due,
            "update_time": now,
        }
        if self.has_expiry and transition.expires and (expiry := tracker.expiry_of(code, now)):
            moves["expire_time"] = Stored(expiry)
        transition.values = {**moves, **transition.values}

    @property
    def table(self) -> TableConnection:
        """The table connection that renders PynamoDB's expressions."""
        return self.model.tracker.connection()

    def _request(self, transition: Transition, task_id: str) -> dict[str, Any]:
        self.complete(transition, task_id)
        shape, slots = transition.shape_and_slots()
        write = self._rendered.get(shape)
        if write is None:
            if len(self._rendered) >= _MOST_SHAPES:
                self._rendered.clear()
            write = self._rendered[shape] = transition.render(self.table)
        return write.request(self.model.tracker.key(task_id), slots)

    def claim(
        self,
        token: str,
        worker: str,
        now: datetime,
        lock_for: timedelta,
        *,
        code: int | None,
        payload: str | None,
        on_time: bool = False,
        parked: bool = False,
    ) -> Transition:
        """Build the claim on a runnable or abandoned task, which every run sends first.

        With a `code`, it claims from that state, as the first attempt at this step. If the task is still `parked`, its
        wait ends now. `payload` is a fingerprint. `on_time` leaves out the clock margin.
        """
        claim = Transition("claim" if code is None else "claim from", self.codes.in_progress, due=now + lock_for)
        claim.time, claim.guards = now, self._startable
        if code is not None:
            claim.guards = when.has_status(code), when.is_due(), when.later_token(), when.known_format()
            if code not in self.codes.own:
                claim.add(when.not_cancelled())
        claim.seen = {**times_seen(now, self.model.tracker.margin), "max_attempts": str(self.max_attempts)}
        if on_time:
            claim.seen["now_plus_margin"] = clock.stamp(now)
        claim.returns_row_before = True
        claim.values = {
            "attempt": ONE_MORE if code is None else Constant(1),
            "lock_expire_time": Same("due_time"),
            "lock": token,
            "worker": worker,
            "fence": ONE_MORE,
            "unfinished": ONE_MORE,
            "saves": ZERO,
            "expire_time": None,
        }
        if code is not None:
            claim.add(postpone_count=None, first_failure=None)
            if parked:
                claim.add(wait_until=now)
        if end_of(code):
            claim.add(round=Same("lock"), signals=None, **dict.fromkeys(sorted(OF_ROUND)))
        if payload is not None:
            claim.add(when.same_payload(self.payload.attr_name))
            claim.changes = {self.payload.attr_name: (self.payload, {STRING: payload})}
        return claim

    def prepare(self, *, with_payload: bool) -> None:
        """Render the first run's claim in advance."""
        now, payload = clock.now(), "" if with_payload else None
        self._request(self.claim("", "", now, timedelta(0), code=None, payload=payload), "")

    @cached_property
    def _startable(self) -> tuple[Guard, ...]:
        return when.startable(self.codes), when.under_limit(), when.later_token(), when.known_format()

    @cached_property
    def held_by_run(self) -> tuple[Guard, ...]:
        """The guard for all of a run's writes."""
        return (when.held_by_run(self.codes),)

    def save(self, token: str, number: int, changes: Changes | None = None) -> Transition:
        """Build a save of the block's changes, which writes no indexed attribute.

        The row counts each save, so late copies of earlier saves are refused. In a transaction, a save without changes
        checks the lock and leaves a trace in the row.
        """
        save = Transition("save", None, *self.held_by_run, when.later_save())
        save.seen, save.values, save.assigned = {"lock": token}, {"saves": number}, changes or {}
        return save


def is_parked(row: TaskRow) -> bool:
    """Return whether a task waits for others, for its turn, or for signals."""
    return not {"blockers", "awaited_signals"}.isdisjoint(row._row_state.stored)


def is_urgent(row: TaskRow) -> bool:
    """Return whether a task is urgent."""
    return "urgent" in row._row_state.stored


def waits_until(row: TaskRow) -> datetime | None:
    """Return a waiting task's limit, or None if it waits for nothing."""
    wait_until: datetime | None = row.wait_until
    return wait_until or clock.NEVER if is_parked(row) else None


def times_seen(now: datetime, margin: timedelta) -> dict[str, str]:
    """Return the slot values for `is_due` and `lock_expired`."""
    return {"now_plus_margin": clock.stamp(now + margin), "now_minus_margin": clock.stamp(now - margin)}


def get(model: type[T], task_id: str, *, until: datetime | None = None) -> T | None:
    """Read a task with strong consistency. Raise a TaskError if the tracker's attributes are damaged."""
    request = {"Key": model.tracker.key(task_id), "ConsistentRead": True}
    item = send(model.tracker.table.connection(), "GetItem", request, until=until).get("Item")
    return load_checked(model, item) if item else None


def load_checked(model: type[T], item: Item) -> T:
    """Load a task from an item. Raise a TaskError if the tracker's attributes are damaged."""
    return check_tracker_attributes(load(model, item))


def raise_if_damaged(model: type[T], task_id: str, error: PynamoDBConnectionError) -> None:
    """Raise a TaskError if damaged tracker attributes have made an update invalid."""
    if is_invalid(error):
        get(model, task_id)
