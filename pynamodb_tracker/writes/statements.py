"""The transitions of a step: the guards of each one, and the attributes of the row after it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Generic, TypeVar

from pynamodb.attributes import UnicodeAttribute
from pynamodb.connection.table import TableConnection
from pynamodb.constants import RETURN_VALUES, STRING
from pynamodb.exceptions import PynamoDBConnectionError

from pynamodb_tracker import clock
from pynamodb_tracker.dynamodb.connection import Item, send, shares_requests
from pynamodb_tracker.dynamodb.error_codes import is_invalid
from pynamodb_tracker.model.changes import Changes
from pynamodb_tracker.model.results import payload_attribute, result_attribute
from pynamodb_tracker.model.row import OF_ROUND, Membership, TaskRow, check_tracker_attributes, load, membership_of
from pynamodb_tracker.status import END, Codes
from pynamodb_tracker.writes import conditions as when
from pynamodb_tracker.writes.conditions import Guard, seen_values
from pynamodb_tracker.writes.participants import OptionalParticipant
from pynamodb_tracker.writes.prepared import PreparedWrite
from pynamodb_tracker.writes.transition import (
    ONE_MORE,
    ZERO,
    Appended,
    Constant,
    Same,
    Stored,
    Transition,
)

T = TypeVar("T", bound=TaskRow)

WAITS: Mapping[str, None] = dict.fromkeys(("blockers", "awaited_signals", "signals", "wait_until"))
"""Attributes that a new round removes, even if they came after the row was read."""

_MOST_SHAPES = 128
"""How many rendered writes a step keeps. Blocks change few different sets of attributes."""

WhenIgnored = Callable[[T], OptionalParticipant]
"""Returns the writes to make together with ignoring a task; it gets the task in its future state."""


class StepStatements(Generic[T]):
    """The writes of one step of one use case: it completes them, keeps them rendered, fills them, and sends them."""

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
        """Send a transition, and retry it until then. Raise Refused, or PynamoDB's UpdateError.

        With `shows_row`, a refusal contains the row. DynamoDB does not charge for that.
        """
        table, request = self.model.tracker.table.connection(), self._request(transition, task_id)
        if shows_row:
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        return send(table, "UpdateItem", request, until=until)

    def as_action(self, transition: Transition, task_id: str) -> dict[str, Any]:
        """Return a transition as an action of a transaction, which returns no row."""
        request = self._request(transition, task_id)
        request.pop(RETURN_VALUES, None)
        return {"Update": {"TableName": self.table.table_name, **request}}

    def complete(self, transition: Transition, task_id: str) -> None:
        """Complete a transition to another state with its index key and its times. Its own values take precedence."""
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
        """The table connection, which renders PynamoDB's expressions."""
        return self.model.tracker.connection()

    def _request(self, transition: Transition, task_id: str) -> dict[str, Any]:
        self.complete(transition, task_id)
        shape, slots = transition.shape_and_slots()
        write = self._rendered.get(shape)
        if write is None:
            if len(self._rendered) >= _MOST_SHAPES:
                self._rendered.clear()
            write = self._rendered[shape] = transition.rendered(self.table)
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
        """Take a task that is runnable, or whose lock has expired: the first request of every run.

        Args:
            token: The new lock.
            worker: The name of the worker.
            now: The time of the claim.
            lock_for: How long the lock is held.
            code: Take the task from exactly this state, as the first attempt of this step.
            payload: A fingerprint. The claim is refused if the step was first started with another one.
            on_time: Leave out the clock margin: the task must be due by this clock.
            parked: The task still waits for something in that state. Then its wait ends now: the run does without it.
        """
        claim = Transition("claim" if code is None else "claim from", self.codes.in_progress, due=now + lock_for)
        claim.time, claim.guards = now, self._startable
        if code is not None:
            claim.guards = when.at(code), when.not_cancelled(), when.due(), when.later_token(), when.known_format()
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
        if code == END:
            claim.add(round=Same("lock"), signals=None, **dict.fromkeys(sorted(OF_ROUND)))
        if payload is not None:
            claim.add(when.same_payload(self.payload.attr_name))
            claim.changes = {self.payload.attr_name: (self.payload, {STRING: payload})}
        return claim

    def prepare(self, *, with_payload: bool) -> None:
        """Render the claim that the first run sends."""
        now, payload = clock.now(), "" if with_payload else None
        self._request(self.claim("", "", now, timedelta(0), code=None, payload=payload), "")

    @cached_property
    def _startable(self) -> tuple[Guard, ...]:
        return when.startable(self.codes), when.under_limit(), when.later_token(), when.known_format()

    @cached_property
    def mine(self) -> tuple[Guard, ...]:
        """The guard of each write of a run."""
        return (when.mine(self.codes),)

    def extend(self, token: str, expire_time: datetime) -> Transition:
        """Extend the lock; writes no indexed attribute."""
        extend = Transition("extend", None, *self.mine, when.grows())
        extend.seen, extend.values = {"lock": token}, {"lock_expire_time": expire_time}
        return extend

    def save(self, token: str, number: int, changes: Changes | None = None) -> Transition:
        """Store the block's changes so far, without writing an indexed attribute.

        Without changes, the row only counts a save, after which late copies of earlier saves are refused. In a
        transaction, it checks that the lock is held, and leaves a trace in the row.
        """
        save = Transition("save", None, *self.mine, when.later_save())
        save.seen, save.values, save.assigned = {"lock": token}, {"saves": number}, changes or {}
        return save

    def reopen(
        self, token: str, row: T | None, *, kept: bool, entry: list[dict[str, Any]] | None, urgent: bool = False
    ) -> Transition:
        """Give a task a fresh set of attempts. The next start may have another payload.

        Args:
            token: The new lock.
            row: The task. If it is None, it was not read: then the task must neither wait for others, nor repeat, nor
                be in a group, and unless it gets `urgent`, it must not have been so.
            kept: Whether `keep` has removed the time to live of the overflow chunks. Without it, a task with a time to
                live is refused.
            entry: An entry for `errors` that says who reopened the task.
            urgent: Whether it gets urgent.
        """
        parked, rule = row is not None and is_parked(row), row is not None and row.repeat
        has_asked = row is not None and row.request_count is not None
        reopen = Transition(
            "reopen", self.codes.pending, when.at(self.codes.failed, self.codes.ignored), when.later_token()
        )
        reopen.add(
            *_waiting_as_seen(row),
            when.requests_as_seen(is_there=has_asked) if rule else when.has_no_rule(),
            when.membership_seen(Membership.NONE if row is None else membership_of(row)),
        )
        if row is not None:
            reopen.add(when.same_life(), seen={**seen_values(row), "seen_asked": str(row.request_count)})
        # A failed or ignored task has errors, unless it was created so: then the second try succeeds.
        appended = None if entry is None else Appended(entry, is_first=row is not None or not shares_requests())
        reopen.due = waits_until(row) if parked and row is not None else None
        if urgent:
            reopen.is_urgent = True
            reopen.add(urgent=True)
        elif self.model.tracker.lane_codes:
            reopen.is_urgent = row is not None and is_urgent(row)
            reopen.add(when.urgent_seen(is_there=reopen.is_urgent))
        return self.reopened(reopen, token, kept=kept, entry=appended)

    def reopened(self, reopen: Transition, token: str, *, kept: bool, entry: Appended | None) -> Transition:
        """Complete a transition that gives a task a fresh set of attempts."""
        if entry is not None and not entry.is_first:
            reopen.add(when.has_errors())
        if not kept:
            reopen.add(when.has_no_time_to_live())
        reopen.add(when.known_format(), lock=token, attempt=ZERO)
        if entry is not None:
            reopen.add(errors=entry)
        reopen.add(release_count=None, postpone_count=None, first_failure=None, cancel_time=None, expire_time=None)
        reopen.changes = {self.payload.attr_name: (self.payload, None)}
        reopen.returns_row = True
        return reopen

    def hurry(self, token: str, row: T) -> Transition:
        """Make a pending task urgent."""
        code, key = self.codes.pending, self.model.tracker.status_key(self.codes.pending, row.task_id, is_urgent=True)
        hurry = Transition("hurry", None, when.at(code), when.same_life(), when.later_token(), when.known_format())
        hurry.add(seen={"seen_creation": row.creation}, urgent=True, status_key=key, lock=token)
        hurry.returns_row = True
        return hurry

    def unlock(self, row: T) -> Transition:
        """Release a task that another worker holds. The attempt counts, and its fence stays in `unfinished`.

        The later token refuses late copies of claims that were refused while that worker held the task.
        """
        unlock = Transition("unlock", self.codes.pending, when.held_as_seen(self.codes))
        unlock.seen = {"seen_lock": row.lock}
        return unlock

    def ignore(self, row: T) -> Transition:
        """Ignore a task by command. If it waits for its turn in a group, it stops waiting."""
        membership = membership_of(row)
        ignore = Transition("ignore", self.codes.ignored, when.as_read(), when.free(self.codes), when.later_token())
        ignore.add(when.membership_seen(membership), seen=seen_values(row))
        if membership is Membership.QUEUE:
            ignore.add(turn_due_time=None, blockers=None)
        elif membership is Membership.QUEUE_AND_OTHERS:
            ignore.add(turn_due_time=None, blockers=row.blockers - 1)
        return ignore

    def cancel(self, row: T) -> Transition:
        """Ignore a task that another worker holds. Its fence stays in `unfinished`."""
        cancel = Transition("ignore running", self.codes.ignored, when.held_as_seen(self.codes))
        cancel.seen = {"seen_lock": row.lock}
        return cancel


def _waiting_as_seen(row: TaskRow | None) -> Sequence[Guard]:
    """Return guards that a task still waits as it did when it was read; None stands for one that waits for nothing."""
    if row is None or not is_parked(row):
        return when.waits_for_none(), when.awaits_seen(is_there=False)
    return (when.waits_for_others() if "blockers" in row._row_state.stored else when.waits_for_signals(),)


def is_parked(row: TaskRow) -> bool:
    """Return whether a task waits for others, for its turn, or for signals."""
    return not {"blockers", "awaited_signals"}.isdisjoint(row._row_state.stored)


def is_urgent(row: TaskRow) -> bool:
    """Return whether a task is urgent."""
    return "urgent" in row._row_state.stored


def waits_until(row: TaskRow) -> datetime | None:
    """Return the limit of a waiting task; None if it waits for nothing."""
    wait_until: datetime | None = row.wait_until
    return wait_until or clock.NEVER if is_parked(row) else None


def times_seen(now: datetime, margin: timedelta) -> dict[str, str]:
    """Return the values for the slots of `due` and `lock_expired`."""
    return {"now_plus_margin": clock.stamp(now + margin), "now_minus_margin": clock.stamp(now - margin)}


def get(model: type[T], task_id: str, *, until: datetime | None = None) -> T | None:
    """Read a task, strongly consistent. Raise a TaskError if the tracker's attributes are damaged."""
    request = {"Key": model.tracker.key(task_id), "ConsistentRead": True}
    item = send(model.tracker.table.connection(), "GetItem", request, until=until).get("Item")
    return loaded(model, item) if item else None


def loaded(model: type[T], item: Item) -> T:
    """Return the task of an item that was read. Raise a TaskError if the tracker's attributes are damaged."""
    return check_tracker_attributes(load(model, item))


def raise_if_damaged(model: type[T], task_id: str, error: PynamoDBConnectionError) -> None:
    """Raise a TaskError if an update was invalid because the tracker's attributes in the row are damaged."""
    if is_invalid(error):
        get(model, task_id)
